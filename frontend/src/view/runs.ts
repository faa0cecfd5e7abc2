/** One run as the page knows it. */

import type { SupersededTextShown } from "../bodies.ts";
import type { RunQueued } from "../events.ts";
import { type Activity, newActivity } from "./activity.ts";
import type { AskEntry, EndingEntry, Entry, TextEntry, ThinkingEntry, ToolEntry } from "./entries.ts";

export type Phase = "queued" | "running" | "stopping" | "ended";
export type RunStatus = "queued" | "running" | "waiting_for_approval" | "stopping" | "ended";

/** What calls used; the cost is null as soon as that of one call is unknown. */
export interface Tally {
  input_tokens: number;
  output_tokens: number;
  cached_tokens: number;
  cache_write_tokens: number;
  reasoning_tokens: number;
  cost_usd: number | null;
}

/** A run; `entries` are those that the page has of it, without superseded ones. */
export interface RunView {
  readonly run_id: string;
  readonly message_id: string;
  readonly model: string;
  readonly first_seq: number;
  readonly created_ms: number;
  started_ms: number;
  updated_ms: number;
  phase: Phase;
  stop_cause: string;
  gate_until_ms: number;
  call_id: string;
  attempt_id: string;
  target: string;
  /** Whether the call under way is one of the conversation (else a title or a summary). */
  answers: boolean;
  /** What the newest call of the conversation sent and got: how full the context is. */
  context_tokens: number;
  /** How many files the run has changed so far. */
  files_changed: number;
  /** Whether it may only read, because nobody has accepted its plan yet. */
  is_planning: boolean;
  usage: Tally;
  activity: Activity;
  texts: Map<number, TextEntry>;
  thoughts: Map<number, ThinkingEntry>;
  tools: Map<string, ToolEntry>;
  asks: Map<string, AskEntry>;
  entries: Entry[];
  /** Cut-off text that the model is writing again, until it has answered. */
  superseded: SupersededTextShown | null;
  ending: EndingEntry | null;
}

export function noUsage(): Tally {
  return {
    input_tokens: 0,
    output_tokens: 0,
    cached_tokens: 0,
    cache_write_tokens: 0,
    reasoning_tokens: 0,
    cost_usd: 0,
  };
}

/** Adds what a call, or another tally, used. */
export function addUsage(sum: Tally, used: Partial<Tally>): void {
  sum.input_tokens += used.input_tokens ?? 0;
  sum.output_tokens += used.output_tokens ?? 0;
  sum.cached_tokens += used.cached_tokens ?? 0;
  sum.cache_write_tokens += used.cache_write_tokens ?? 0;
  sum.reasoning_tokens += used.reasoning_tokens ?? 0;
  const cost = used.cost_usd ?? null;
  sum.cost_usd = sum.cost_usd === null || cost === null ? null : sum.cost_usd + cost;
}

/** The run that is queued by the event. */
export function newRun(event: RunQueued, seq: number): RunView {
  return {
    run_id: event.run_id,
    message_id: event.message_id,
    model: event.settings?.model ?? "",
    first_seq: seq,
    created_ms: event.at_ms,
    started_ms: 0,
    updated_ms: event.at_ms,
    phase: "queued",
    stop_cause: "",
    gate_until_ms: 0,
    call_id: "",
    attempt_id: "",
    target: "",
    answers: true,
    context_tokens: 0,
    files_changed: 0,
    is_planning: event.settings?.plan_first ?? false,
    usage: noUsage(),
    activity: newActivity("queued", event.at_ms),
    texts: new Map(),
    thoughts: new Map(),
    tools: new Map(),
    asks: new Map(),
    entries: [],
    superseded: null,
    ending: null,
  };
}

/** Approvals and questions of the run that a person can still answer. */
export function openAsks(run: RunView): AskEntry[] {
  return [...run.asks.values()].filter((ask) => ask.state === "open");
}

/** The phase as people know it. */
export function statusOf(run: RunView): RunStatus {
  return run.phase === "running" && openAsks(run).length > 0 ? "waiting_for_approval" : run.phase;
}
