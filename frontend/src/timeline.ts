/** Where a run's seconds went: a log as a timeline, from the events alone; the same answer as the server's. */

import type { AnyEvent, FailureKind, LogRecord } from "./events.ts";

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
  queued: "in the queue",
  waiting: "waiting for the model's first word",
  streaming: "reading the answer",
  stalled: "silence, until the watchdog ended it",
  retrying: "between attempts",
  gated: "waiting for a time that the provider named",
  tools: "running tools",
  people: "waiting for a person",
  away: "not running (crash or restart)",
  between: "between steps",
};

const STALLS: ReadonlySet<FailureKind> = new Set(["no_first_event", "stalled", "upload_stalled"]);

// After an event of this type, the time until the next event is spent so.
const AFTER: Readonly<Partial<Record<AnyEvent["type"], Spent>>> = {
  "run.queued": "queued",
  "attempt.started": "waiting",
  "text.delta": "streaming",
  "reasoning.delta": "streaming",
  "text.done": "streaming",
  "reasoning.done": "streaming",
  "attempt.failed": "retrying",
  "attempt.superseded": "retrying",
  "call.gated": "gated",
  "tool.started": "tools",
  "tool.output": "tools",
  "approval.asked": "people",
  "question.asked": "people",
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
  private after: Spent = "between";
  private readonly tools = new Set<string>(); // that run
  private readonly asks = new Map<string, string>(); // that are open, and the tool call that each is about

  /** How the time up to this event was spent. */
  until(event: AnyEvent): Spent {
    const how = this.spent(event);
    this.after = AFTER[event.type] ?? "between";
    this.take(event);
    return how;
  }

  private spent(event: AnyEvent): Spent {
    if (event.type === "run.resumed") {
      return "away";
    }
    if (event.type === "attempt.failed" && STALLS.has(event.failure.kind)) {
      return "stalled";
    }
    if (this.after !== "between" && this.after !== "tools" && this.after !== "people") {
      return this.after;
    }
    const asked = new Set(this.asks.values());
    if ([...this.tools].some((id) => !asked.has(id))) {
      return "tools";
    }
    return this.asks.size > 0 ? "people" : this.after;
  }

  private take(event: AnyEvent): void {
    switch (event.type) {
      case "tool.started":
        this.tools.add(event.tool_call_id);
        break;
      case "tool.ended":
        this.tools.delete(event.tool_call_id);
        break;
      case "approval.asked":
        this.asks.set(event.approval_id, event.tool_call_id);
        break;
      case "question.asked":
        this.asks.set(event.question_id, event.tool_call_id);
        break;
      case "approval.answered":
      case "approval.expired":
      case "approval.withdrawn":
        this.asks.delete(event.approval_id);
        break;
      case "question.answered":
      case "question.expired":
      case "question.withdrawn":
        this.asks.delete(event.question_id);
        break;
      case "run.resumed":
      case "run.ended":
        this.tools.clear();
        break;
    }
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

function describe(event: AnyEvent): string {
  switch (event.type) {
    case "session.rewound":
      return `to ${event.to_seq}`;
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
    case "target.switched":
      return `${event.from_target} → ${event.to_target}: ${event.why}`;
    case "usage":
      return `${event.input_tokens ?? 0} in, ${event.output_tokens ?? 0} out`;
    case "stop.requested":
      return event.cause ?? "user_stop";
    case "run.resumed":
      return `after ${event.after}`;
    case "run.ended":
      return [event.outcome, event.cause ?? ""].filter(Boolean).join(" ");
    case "context.compacted":
      return `up to ${event.upto_seq}`;
    default:
      return ("text" in event && event.text) || ("title" in event && event.title) || "";
  }
}
