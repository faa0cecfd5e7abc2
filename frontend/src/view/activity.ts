/** What a run is doing right now: the same fold as the server's (folds/activity.py), held to it by the golden logs. */

import { AFTER, WORDS } from "../activity_words.ts";
import type { AnyEvent } from "../events.ts";
import { type AskEvent, type AskKind, askOf, isAsk } from "./asks.ts";

export type ActivityName = keyof typeof WORDS;

/** What the newest events of a run say of it; plain data, since a window brings it. */
export interface Activity {
  latest: ActivityName;
  changed_ms: number;
  compacting: boolean;
  model: string;
  after: string;
  stopping: boolean;
  asked: string[];
  running: Record<string, number>;
  /** Open ones: of which kind, and about which tool call. */
  asks: Record<string, readonly [kind: AskKind | "client_tools", toolCallId: string]>;
}

/** Here words keep coming, so that a number of seconds beside them would say nothing. */
export const MOVING: ReadonlySet<ActivityName> = new Set(["answering", "thinking"]);
/** Here the log says all there is to say; elsewhere the server may know more. */
export const CERTAIN: ReadonlySet<ActivityName> = new Set(["stopping", "approval", "question", "client"]);

export function newActivity(latest: ActivityName, changed_ms = 0): Activity {
  return {
    latest,
    changed_ms,
    compacting: false,
    model: "",
    after: "",
    stopping: false,
    asked: [],
    running: {},
    asks: {},
  };
}

/** The tool calls that do something, and do not wait for a person. */
export function atWork({ running, asks }: Activity): string[] {
  const waiting = new Set(Object.values(asks).map(([, id]) => id));
  return Object.keys(running).filter((id) => !waiting.has(id));
}

/** The state that people are told, and the tool call that it is about, if it is about one. */
export function stateOf(activity: Activity): readonly [ActivityName, (string | undefined)?] {
  const { latest, compacting, stopping, asked, asks } = activity;
  if (latest === "ended") return [latest];
  if (stopping) return ["stopping"];
  const [id, other] = atWork(activity);
  // a later call may wait for a person meanwhile: the card says so, the line says what happens
  if (id !== undefined) return other === undefined ? ["tool", id] : ["tools"];
  const kinds = Object.values(asks).map(([kind]) => kind);
  for (const kind of ["approval", "question"] as const) if (kinds.includes(kind)) return [kind];
  if (kinds.length > 0) return ["client"];
  if (latest === "between" && asked.length > 0) return ["next", asked[0]];
  return compacting ? ["compacting"] : [latest, latest === "asking" ? asked.at(-1) : undefined];
}

/** One more event of the run; whether people are told something else from now on. */
export function take(activity: Activity, event: AnyEvent): boolean {
  const latest = (AFTER as Readonly<Record<string, ActivityName>>)[event.type];
  if (latest === undefined || (MOVING.has(latest) && latest === activity.latest)) return false;
  const was = String(stateOf(activity));
  activity.latest = latest;
  change(activity, event);
  const isOther = was !== String(stateOf(activity));
  if (isOther) activity.changed_ms = event.at_ms;
  return isOther;
}

function change(activity: Activity, event: AnyEvent): void {
  if (isAsk(event)) asked(activity, event);
  switch (event.type) {
    case "client_tools.asked":
      activity.asks[event.client_tools_id] = ["client_tools", ""];
      activity.asked = activity.asked.filter((id) => !event.tool_call_ids.includes(id));
      break;
    case "client_tools.answered":
    case "client_tools.expired":
    case "client_tools.withdrawn":
      delete activity.asks[event.client_tools_id];
      break;
    case "call.started":
      activity.compacting = event.purpose === "compaction";
      break;
    case "context.compacted":
    case "context.compaction_failed":
      activity.compacting = false;
      break;
    case "attempt.started":
      activity.model = event.model || event.target;
      // what an attempt before it asked for counts no more, or it would have been run
      activity.asked = [];
      break;
    case "tool.asked":
      activity.asked.push(event.tool_call_id);
      break;
    case "tool.started":
    case "tool.ended":
      activity.asked = activity.asked.filter((id) => id !== event.tool_call_id);
      delete activity.running[event.tool_call_id];
      if (event.type === "tool.started") activity.running[event.tool_call_id] = event.at_ms;
      break;
    case "stop.requested":
      activity.stopping = true;
      break;
    case "run.resumed":
      activity.after = event.after;
      activity.compacting = false;
      // no process of the crashed server still runs; later events say what became of each tool
      activity.asked.unshift(...Object.keys(activity.running));
      activity.running = {};
      break;
    case "run.ended":
      Object.assign(activity, { asked: [], running: {}, asks: {} });
      break;
    default:
      break;
  }
}

/** An ask is open from the event that names its tool call until the next one about it. */
function asked(activity: Activity, event: AskEvent): void {
  const [kind, id] = askOf(event);
  if ("tool_call_id" in event) activity.asks[id] = [kind, event.tool_call_id];
  else {
    // what was not allowed will not run, so nobody may read that it is about to
    const isRefused = event.type !== "approval.answered" || event.choice === "deny";
    if (isRefused && kind === "approval") {
      activity.asked = activity.asked.filter((tool) => tool !== activity.asks[id]?.[1]);
    }
    delete activity.asks[id];
  }
}

/** The state in words; `tool` is what its tool call is to do. */
export function wordsOf(activity: Activity, tool: string): string {
  const given: Readonly<Record<string, string | number>> = {
    model: activity.model || "the model",
    tool: tool || "a tool",
    count: atWork(activity).length,
    after: activity.after,
  };
  return WORDS[stateOf(activity)[0]].replace(/\{(\w+)\}/g, (_, name: string) => String(given[name]));
}
