/** Where a run's seconds went: a log as a timeline, from the events alone; the same answer as the server's. */

import type { AnyEvent, FailureKind, LogRecord, PlanStep, SessionRewound, SnapshotTaken } from "./events.ts";
import { type ActivityName, atWork, newActivity, take } from "./view/activity.ts";

export type Spent =
  | "queued"
  | "waiting"
  | "streaming"
  | "stalled"
  | "retrying"
  | "gated"
  | "tools"
  | "people"
  | "away"
  | "between";

export const TEXT_CHARS_MAX = 60;

export const WORDS: Readonly<Record<Spent, string>> = {
  queued: "queued",
  waiting: "waiting for the model",
  streaming: "receiving the answer",
  stalled: "stalled until restarted by the watchdog",
  retrying: "between attempts",
  gated: "paused by the provider",
  tools: "running tools",
  people: "waiting for a person",
  away: "not running (crash or restart)",
  between: "between steps",
};

export const STALLS: ReadonlySet<FailureKind> = new Set(["no_first_event", "stalled", "upload_stalled"]);

// What a run is doing in these states has a name of its own here; the rest is tools, people, or between steps.
const SPENT: Readonly<Partial<Record<ActivityName, Spent>>> = {
  queued: "queued",
  waiting: "waiting",
  answering: "streaming",
  thinking: "streaming",
  pausing: "streaming",
  retrying: "retrying",
  gated: "gated",
};

/** One event, or several deltas in a row, as a person reads it. */
export interface Line {
  readonly seq: number;
  readonly at_ms: number;
  readonly since_ms: number;
  readonly type: string;
  readonly text: string;
  readonly times: number;
}

/** The lines of a log and the sums of its time. */
export interface Timeline {
  readonly lines: Line[];
  readonly spent_ms: Partial<Record<Spent, number>>;
}

/** The timeline of a whole log, or of a part of one. */
export function timeline(records: Iterable<LogRecord>): Timeline {
  const result: Timeline = { lines: [], spent_ms: {} };
  const spending = new Spending();
  let beforeMs: number | null = null;
  for (const record of records) {
    const how = spending.until(record);
    if (beforeMs !== null) {
      result.spent_ms[how] = (result.spent_ms[how] ?? 0) + Math.max(0, record.at_ms - beforeMs);
    }
    add(result.lines, record);
    beforeMs = record.at_ms;
  }
  return result;
}

/** From the first event to the last. */
export function totalMs(result: Timeline): number {
  return result.lines.at(-1)?.since_ms ?? 0;
}

/** Says of each event how the time since the one before it was spent. */
export class Spending {
  private readonly activity = newActivity("between");
  private isPaused = false; // the queue, until a person resumes it

  /** How the time up to this event was spent. */
  until(event: AnyEvent): Spent {
    const how = this.spent(event);
    take(this.activity, event);
    if (event.type === "queue.paused" || event.type === "queue.resumed") {
      this.isPaused = event.type === "queue.paused";
    }
    return how;
  }

  private spent(event: AnyEvent): Spent {
    if (event.type === "run.resumed") {
      return "away";
    }
    if (event.type === "attempt.failed" && STALLS.has(event.failure.kind)) {
      return "stalled";
    }
    if (this.activity.latest === "queued" && this.isPaused) {
      return "people";
    }
    const people = Object.keys(this.activity.asks).length > 0 ? "people" : "between";
    return SPENT[this.activity.latest] ?? (atWork(this.activity).length > 0 ? "tools" : people);
  }
}

function add(lines: Line[], record: LogRecord): void {
  const first = lines[0];
  const last = lines.at(-1);
  const { seq, at_ms, type } = record;
  const isDelta = type === "text.delta" || type === "reasoning.delta" || type === "tool.output";
  if (last !== undefined && last.type === type && isDelta) {
    lines[lines.length - 1] = { ...last, text: short(last.text + describe(record)), times: last.times + 1 };
  } else {
    const since_ms = first === undefined ? 0 : Math.max(0, at_ms - first.at_ms);
    lines.push({ seq, at_ms, since_ms, type, text: textOf(record), times: 1 });
  }
}

/** What the event says, in one short line. */
export function textOf(event: AnyEvent): string {
  return short(describe(event));
}

function short(text: string): string {
  const letters = Array.from(text.replace(/(?! )[\p{C}\p{Z}]/gu, " "));
  return letters.length <= TEXT_CHARS_MAX
    ? letters.join("")
    : `${letters.slice(0, TEXT_CHARS_MAX - 1).join("")}…`;
}

function undoText(undo: SessionRewound["undo"]): string {
  return undo ? `, ${undo.files} files as before${undo.redoes ? " the undo" : ""}` : "";
}

function countText({ when, files, changed }: SnapshotTaken): string {
  return `${files ?? 0} files${when === "after" ? `, ${changed ?? 0} changed` : ""}`;
}

/** How far a plan is. */
export function stepsDone(steps: readonly PlanStep[]): string {
  const done = steps.filter((step) => step.state === "completed").length;
  return `${done} of ${steps.length} steps`;
}

function describe(event: AnyEvent): string {
  switch (event.type) {
    case "session.rewound":
      return `to ${event.to_seq}${undoText(event.undo)}`;
    case "snapshot.taken":
      return `${event.when} turn ${event.turn}: ${event.why_not || countText(event)}`;
    case "attempt.started":
      return `#${event.nth ?? 1} ${event.target} ${event.model ?? ""}`;
    case "attempt.failed":
      return `${event.close_reason}: ${event.failure.text}`;
    case "tool.asked":
      return event.name;
    case "tool.ended":
      return `${event.ending ?? "finished"}: ${event.result}`;
    case "approval.asked":
      return event.action.summary;
    case "approval.answered":
      return event.choice;
    case "question.answered":
      return event.answer;
    case "client_tools.asked":
      return `${event.tool_call_ids.length} calls for the client`;
    case "target.switched":
      return `${event.from_target} → ${event.to_target}: ${event.why}`;
    case "usage": {
      const { input_tokens = 0, cached_tokens = 0, output_tokens = 0 } = event;
      return `${input_tokens - cached_tokens} new + ${cached_tokens} cached in, ${output_tokens} out`;
    }
    case "stop.requested":
      return event.cause ?? "user_stop";
    case "run.resumed":
      return `after ${event.after}`;
    case "run.ended":
      return [event.outcome, event.cause ?? ""].filter(Boolean).join(" ");
    case "context.compacted":
      return `up to ${event.upto_seq}${event.failure ? `: ${event.failure}` : ""}`;
    case "context.trimmed":
      return `${event.results.length} tool results`;
    case "context.compaction_failed":
      return event.failure;
    case "context.reverted":
      return `${event.reverted_seq}`;
    case "message.pinned":
    case "message.unpinned":
      return event.message_id || event.answer_of || "";
    case "plan.updated":
      return stepsDone(event.steps) + (event.accepted ? ", accepted" : "");
    case "context.read":
      return event.sources.join(", ");
    case "context.set":
      return event.reason === "first" ? event.reason : `cache broken by: ${event.reason}`;
    case "goal.continued":
      return `round ${event.round}`;
    case "image.described":
      return event.failure || event.name;
    case "audio.transcribed":
      return event.failure || event.text || "";
    case "attachments.saved":
      return event.files.map((file) => file.path || file.name).join(", ");
    default:
      return ("text" in event && event.text) || ("title" in event && event.title) || "";
  }
}
