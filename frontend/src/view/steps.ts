/** What each event of a run brings to it: a new entry, a change of one, or neither. */

import type * as e from "../events.ts";
import { type AskEvent, askOf, isAsk, newAsk, settleAsk, withdrawAsk } from "./asks.ts";
import {
  type Entry,
  endingWords,
  entryOf,
  type NoticeEntry,
  type NoticeKind,
  savedWords,
  type TextEntry,
  type ThinkingEntry,
} from "./entries.ts";
import type { RunStep } from "./run_steps.ts";
import type { RunView } from "./runs.ts";
import { addTail } from "./tail.ts";

/** What an event did: the entry that it brought, and the one that it changed. */
export interface Seen {
  readonly brought?: Entry;
  readonly changed?: Entry | undefined;
}

const NOTHING: Seen = {};

/** Whether the entry goes when the attempt is superseded; a tool that was started stays. */
export function ofAttempt(entry: Entry, runId: string, attemptId: string): boolean {
  switch (entry.kind) {
    case "tool":
      return entry.attempt_id === attemptId && entry.run_id === runId && entry.state === "asked";
    case "text":
    case "thinking":
      return entry.attempt_id === attemptId && entry.run_id === runId;
    default:
      return false;
  }
}

/** Changes the run by the event; the run has what it brought already. */
export function see(run: RunView, seq: number, event: RunStep): Seen {
  const seen = step(run, seq, event);
  run.updated_ms = event.at_ms;
  if (seen.brought !== undefined) {
    run.entries.push(seen.brought);
  }
  return seen;
}

function step(run: RunView, seq: number, event: RunStep): Seen {
  if (isAsk(event)) {
    return asked(run, seq, event);
  }
  switch (event.type) {
    case "run.started":
      run.target = event.target ?? "";
      return NOTHING;
    case "call.started":
      run.call_id = event.call_id;
      run.answers = (event.purpose ?? "answer") === "answer";
      return forgetSegments(run);
    case "attempt.started":
      run.answers ||= event.call_id !== run.call_id; // continues after a summary that it needed
      run.call_id = event.call_id;
      run.attempt_id = event.attempt_id;
      run.target = event.target;
      return forgetSegments(run);
    case "attempt.superseded":
      return superseded(run, event);
    case "text.delta":
    case "text.done":
      return text(run, seq, event);
    case "reasoning.delta":
    case "reasoning.done":
      return thought(run, seq, event);
    case "tool.asked":
    case "tool.started":
    case "tool.output":
    case "tool.ended":
      return tool(run, seq, event);
    case "run.resumed":
    case "target.switched":
    case "call.gated":
    case "context.compacted":
    case "context.trimmed":
    case "context.compaction_failed":
    case "attachments.saved":
    case "context.noted":
    case "goal.continued":
    case "image.described":
    case "audio.transcribed":
      return said(run, seq, event);
    case "run.ended":
      return ended(run, seq, event);
    default:
      return event satisfies never;
  }
}

function forgetSegments(run: RunView): Seen {
  run.texts = new Map();
  run.thoughts = new Map();
  return NOTHING;
}

function superseded(run: RunView, event: e.AttemptSuperseded): Seen {
  const goes = (entry: Entry) => ofAttempt(entry, run.run_id, event.attempt_id);
  const said = run.entries.map((entry) => (entry.kind === "text" && goes(entry) ? entry.text : "")).join("");
  // in characters, as on the server: a string's length counts some of them twice
  if (said !== "" && !event.problem && [...said].length >= [...(run.superseded?.text ?? "")].length) {
    const last = run.entries.at(-1);
    const isResumed = last?.kind === "notice" && last.notice === "resumed";
    run.superseded = { text: said, cause: isResumed ? "restart" : "retry" };
  }
  run.entries = run.entries.filter((entry) => !goes(entry));
  run.tools = new Map([...run.tools].filter(([, card]) => !goes(card)));
  return run.attempt_id === event.attempt_id ? forgetSegments(run) : NOTHING;
}

function outputOf(run: RunView, seq: number, event: { at_ms: number; segment: number }) {
  const { run_id, call_id, attempt_id, target } = run;
  const { at_ms, segment } = event;
  return { seq, at_ms, run_id, call_id, attempt_id, target, segment, text: "", done: false };
}

function text(run: RunView, seq: number, event: e.TextDelta | e.TextDone): Seen {
  const known = run.texts.get(event.segment);
  const entry: TextEntry = known ?? entryOf({ kind: "text", ...outputOf(run, seq, event), phase: "" });
  if (event.type === "text.delta") {
    entry.text += event.text;
  } else {
    entry.text = event.text;
    entry.done = true;
    entry.phase = event.phase ?? "";
  }
  if (known !== undefined) {
    return { changed: known };
  }
  run.texts.set(event.segment, entry);
  // what a model says to compact the context or to find a title is no part of the conversation
  return run.answers ? { brought: entry } : NOTHING;
}

function thought(run: RunView, seq: number, event: e.ReasoningDelta | e.ReasoningDone): Seen {
  const known = run.thoughts.get(event.segment);
  const entry: ThinkingEntry =
    known ?? entryOf({ kind: "thinking", ...outputOf(run, seq, event), opaque: {} });
  if (event.type === "reasoning.delta") {
    entry.text += event.text;
  } else {
    entry.text = event.text;
    entry.done = true;
    entry.opaque = event.opaque ?? {};
  }
  if (known !== undefined) {
    return { changed: known };
  }
  run.thoughts.set(event.segment, entry);
  return run.answers ? { brought: entry } : NOTHING;
}

function tool(
  run: RunView,
  seq: number,
  event: e.ToolAsked | e.ToolStarted | e.ToolOutput | e.ToolEnded,
): Seen {
  if (event.type === "tool.asked") {
    return toolAsked(run, seq, event);
  }
  const card = run.tools.get(event.tool_call_id);
  if (card === undefined) {
    return NOTHING;
  }
  switch (event.type) {
    case "tool.started":
      card.state = "started";
      run.superseded = null;
      card.started_ms = event.at_ms;
      break;
    case "tool.output":
      addTail(card, event.text);
      break;
    case "tool.ended":
      card.state = "ended";
      card.ok = event.ok;
      card.result = event.result;
      card.ending = event.ending ?? "finished";
      card.parts = event.parts ?? [];
      card.blob = event.blob ?? "";
      card.ms = event.ms ?? 0;
      break;
    default:
      return event satisfies never;
  }
  return { changed: card };
}

function toolAsked(run: RunView, seq: number, event: e.ToolAsked): Seen {
  const { run_id, call_id, attempt_id, target } = run;
  const card = entryOf({
    kind: "tool",
    seq,
    at_ms: event.at_ms,
    run_id,
    call_id,
    attempt_id,
    tool_call_id: event.tool_call_id,
    name: event.name,
    args: event.args ?? {},
    bad_args: event.bad_args ?? "",
    opaque: event.opaque ?? {},
    target,
    state: "asked",
    output: "",
    output_chars: 0,
    ok: false,
    result: "",
    ending: null,
    parts: [],
    blob: "",
    ms: 0,
    trimmed_seq: 0,
  });
  run.tools.set(event.tool_call_id, card);
  return { brought: card };
}

function asked(run: RunView, seq: number, event: AskEvent): Seen {
  if ("tool_call_id" in event) {
    const card = newAsk(event, seq);
    run.asks.set(card.ask_id, card);
    return { brought: card };
  }
  const card = run.asks.get(askOf(event)[1]);
  return card !== undefined && settleAsk(card, event) ? { changed: card } : NOTHING;
}

/** Withdraws what an ended run asked; returns the cards that this closes. */
export function closeAsks(run: RunView): Entry[] {
  return [...run.asks.values()].filter(withdrawAsk);
}

/** One line about the run. */
export function notice(
  run: RunView,
  seq: number,
  event: { at_ms: number },
  kind: NoticeKind,
  words: string,
): NoticeEntry {
  const { run_id } = run;
  return entryOf({
    kind: "notice",
    seq,
    at_ms: event.at_ms,
    run_id,
    notice: kind,
    text: words,
    until_ms: 0,
    upto_seq: 0,
    summary: "",
    pinned: [],
    is_reverted: false,
  });
}

/** As Python's format `,` writes it, whatever the browser's language is: both folds say the same. */
function grouped(tokens: number): string {
  return tokens.toLocaleString("en-US");
}

function said(
  run: RunView,
  seq: number,
  event:
    | e.RunResumed
    | e.TargetSwitched
    | e.CallGated
    | e.ContextCompacted
    | e.ContextTrimmed
    | e.ContextCompactionFailed
    | e.AttachmentsSaved
    | e.ContextNoted
    | e.GoalContinued
    | e.ImageDescribed
    | e.AudioTranscribed,
): Seen {
  switch (event.type) {
    case "run.resumed":
      return { brought: notice(run, seq, event, "resumed", `Resumed after a ${event.after}.`) };
    case "target.switched":
      run.target = event.to_target;
      return {
        brought: notice(run, seq, event, "switched", `Switched to ${event.to_target} because ${event.why}.`),
      };
    case "call.gated": {
      const why = event.why ? ` (${event.why})` : "";
      const line = notice(run, seq, event, "gated", `${event.target} asked us to wait${why}.`);
      return { brought: { ...line, until_ms: event.until_ms } };
    }
    case "context.compacted": {
      const [before, after] = [event.tokens_before, event.tokens_after].map((tokens) => grouped(tokens ?? 0));
      const saved = event.tokens_before ? `: about ${before} → ${after} tokens` : "";
      const why = event.failure ? `, without a summary by a model: ${event.failure}` : ".";
      const words = `Earlier messages were summarized for the model${saved}${why}`;
      const line = notice(run, seq, event, "compacted", words);
      const { upto_seq, summary, pinned = [] } = event;
      return { brought: { ...line, upto_seq, summary, pinned } };
    }
    case "context.trimmed": {
      const [before, after] = [event.tokens_before, event.tokens_after].map((tokens) => grouped(tokens ?? 0));
      const count = event.results.length;
      const results = count === 1 ? "1 old tool result" : `${count} old tool results`;
      const words = `The model no longer sees ${results}: about ${before} → ${after} tokens.`;
      return { brought: notice(run, seq, event, "trimmed", words) };
    }
    case "context.compaction_failed": {
      const words = "The conversation couldn't be summarized, so the model still sees all of it.";
      return { brought: notice(run, seq, event, "not_compacted", `${words} ${event.failure}`) };
    }
    case "attachments.saved":
      return { brought: notice(run, seq, event, "saved", savedWords(event.files)) };
    case "context.noted":
      return {
        brought: { ...notice(run, seq, event, "noted", "A note to the model."), summary: event.text },
      };
    case "goal.continued": {
      const words = `Round ${event.round}: the goal isn't shown to be reached yet, so the agent goes on.`;
      return { brought: { ...notice(run, seq, event, "goal", words), summary: event.told } };
    }
    case "image.described": {
      const words = event.failure
        ? `${event.name} couldn't be described: ${event.failure}`
        : `${event.name}, as ${event.target ?? ""} describes it: ${event.text ?? ""}`;
      return { brought: notice(run, seq, event, "described", words) };
    }
    case "audio.transcribed": {
      const words = event.failure
        ? `${event.name} couldn't be transcribed: ${event.failure}`
        : `${event.name}, transcribed: ${event.text ?? ""}`;
      return { brought: notice(run, seq, event, "transcribed", words) };
    }
    default:
      return event satisfies never;
  }
}

function ended(run: RunView, seq: number, event: e.RunEnded): Seen {
  const cause = event.cause ?? "";
  const failure = event.failure ?? null;
  if (event.outcome === "completed") {
    run.superseded = null;
  }
  run.ending = entryOf({
    kind: "ending",
    seq,
    at_ms: event.at_ms,
    run_id: run.run_id,
    outcome: event.outcome,
    cause,
    words: endingWords(event.outcome, cause, failure),
    failure,
    trace: event.trace ?? [],
  });
  return { brought: run.ending };
}
