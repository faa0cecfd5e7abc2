/** What a run is doing right now: the same fold as the server's (folds/activity.py), held to it by the golden logs. */

import { AFTER, WORDS } from "../doing_words.ts";
import type { AnyEvent } from "../events.ts";
import { type AskEvent, type AskKind, askOf, isAsk } from "./asks.ts";

export type DoingName = keyof typeof WORDS;

/** What the newest events of a run say of it; plain data, since a window brings it. */
export interface Doing {
  latest: DoingName;
  changed_ms: number;
  compacting: boolean;
  model: string;
  after: string;
  stopping: boolean;
  asked: string[];
  running: Record<string, number>;
  /** Open ones: of which kind, and about which tool call. */
  asks: Record<string, readonly [kind: AskKind, toolCallId: string]>;
}

/** Here words keep coming, so that a number of seconds beside them would say nothing. */
export const MOVING: ReadonlySet<DoingName> = new Set(["answering", "thinking"]);
/** Here the log says all there is to say; elsewhere the server may know more. */
export const CERTAIN: ReadonlySet<DoingName> = new Set(["stopping", "approval", "question"]);

export function newDoing(latest: DoingName, changed_ms = 0): Doing {
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
export function atWork({ running, asks }: Doing): string[] {
  const waiting = new Set(Object.values(asks).map(([, id]) => id));
  return Object.keys(running).filter((id) => !waiting.has(id));
}

/** The state that people are told, and the tool call that it is about, if it is about one. */
export function stateOf(doing: Doing): readonly [DoingName, (string | undefined)?] {
  const { latest, compacting, stopping, asked, asks } = doing;
  if (latest === "ended") return [latest];
  if (stopping) return ["stopping"];
  const [id, other] = atWork(doing);
  // a later call may wait for a person meanwhile: the card says so, the line says what happens
  if (id !== undefined) return other === undefined ? ["tool", id] : ["tools"];
  const kinds = Object.values(asks).map(([kind]) => kind);
  if (kinds.length > 0) return [kinds.includes("approval") ? "approval" : "question"];
  if (latest === "between" && asked.length > 0) return ["next", asked[0]];
  return compacting ? ["compacting"] : [latest, latest === "asking" ? asked.at(-1) : undefined];
}

/** One more event of the run; whether people are told something else from now on. */
export function take(doing: Doing, event: AnyEvent): boolean {
  const latest = (AFTER as Readonly<Record<string, DoingName>>)[event.type];
  if (latest === undefined || (MOVING.has(latest) && latest === doing.latest)) return false;
  const was = String(stateOf(doing));
  doing.latest = latest;
  change(doing, event);
  const isOther = was !== String(stateOf(doing));
  if (isOther) doing.changed_ms = event.at_ms;
  return isOther;
}

function change(doing: Doing, event: AnyEvent): void {
  if (isAsk(event)) asked(doing, event);
  switch (event.type) {
    case "call.started":
      doing.compacting = event.purpose === "compaction";
      break;
    case "context.compacted":
      doing.compacting = false;
      break;
    case "attempt.started":
      doing.model = event.model || event.target;
      // what an attempt before it asked for counts no more, or it would have been run
      doing.asked = [];
      break;
    case "tool.asked":
      doing.asked.push(event.tool_call_id);
      break;
    case "tool.started":
    case "tool.ended":
      doing.asked = doing.asked.filter((id) => id !== event.tool_call_id);
      delete doing.running[event.tool_call_id];
      if (event.type === "tool.started") doing.running[event.tool_call_id] = event.at_ms;
      break;
    case "stop.requested":
      doing.stopping = true;
      break;
    case "run.resumed":
      doing.after = event.after;
      doing.compacting = false;
      // no process of the crashed server still runs; later events say what became of each tool
      doing.asked.unshift(...Object.keys(doing.running));
      doing.running = {};
      break;
    case "run.ended":
      Object.assign(doing, { asked: [], running: {}, asks: {} });
      break;
    default:
      break;
  }
}

/** An ask is open from the event that names its tool call until the next one about it. */
function asked(doing: Doing, event: AskEvent): void {
  const [kind, id] = askOf(event);
  if ("tool_call_id" in event) doing.asks[id] = [kind, event.tool_call_id];
  else {
    // what was not allowed will not run, so nobody may read that it is about to
    const isRefused = event.type !== "approval.answered" || event.choice === "deny";
    if (isRefused && kind === "approval") {
      doing.asked = doing.asked.filter((tool) => tool !== doing.asks[id]?.[1]);
    }
    delete doing.asks[id];
  }
}

/** The state in words; `tool` is what its tool call is to do. */
export function wordsOf(doing: Doing, tool: string): string {
  const given: Readonly<Record<string, string | number>> = {
    model: doing.model || "the model",
    tool: tool || "a tool",
    count: atWork(doing).length,
    after: doing.after,
  };
  return WORDS[stateOf(doing)[0]].replace(/\{(\w+)\}/g, (_, name: string) => String(given[name]));
}
