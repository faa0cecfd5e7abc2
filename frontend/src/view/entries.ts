/** The entries of a transcript: what people see of a session, in the shapes that the server sends. */

import { type Signal, signal } from "@preact/signals";
import type {
  Action,
  AskState,
  Failure,
  GrantOffer,
  Mode,
  OutcomeKind,
  Part,
  SavedFile,
  ToolEnding,
  Width,
} from "../events.ts";

export const TOOL_OUTPUT_CHARS_MAX = 64 * 1024;

export type MessageState = "queued" | "steering" | "dispatched" | "removed";
export type NoticeKind =
  | "switched"
  | "gated"
  | "resumed"
  | "compacted"
  | "trimmed"
  | "not_compacted"
  | "steered"
  | "saved"
  | "goal"
  | "noted"
  | "described"
  | "transcribed";

/** A person's message in its current state; `run_id` is the run that it waits for or that has it. */
export interface Message {
  readonly message_id: string;
  readonly seq: number;
  readonly at_ms: number;
  text: string;
  parts: readonly Part[];
  readonly mode: Mode;
  readonly client_id: string;
  state: MessageState;
  run_id: string;
  /** The session of the sub-agent whose ending it brings; empty if a person sent it. */
  readonly child: string;
}

/** What all entries have: `key` names it for lists, `version` grows whenever it changes. */
interface Placed {
  readonly key: string;
  readonly version: Signal<number>;
  readonly seq: number;
  readonly at_ms: number;
  readonly run_id: string;
}

/** What a person said, at the place where a run took it up. */
export interface PersonEntry extends Placed {
  readonly kind: "person";
  readonly message: Message;
}

interface ModelOutput extends Placed {
  readonly call_id: string;
  readonly attempt_id: string;
  readonly target: string;
  readonly segment: number;
  text: string;
  done: boolean;
}

/** A stretch of the answer; `phase` is its provider's word for what it is. */
export interface TextEntry extends ModelOutput {
  readonly kind: "text";
  phase: string;
}

/** A stretch of thinking. */
export interface ThinkingEntry extends ModelOutput {
  readonly kind: "thinking";
  opaque: Readonly<Record<string, string>>;
}

/** A tool call: what was asked, the end of what it said while it ran, what it brought. */
export interface ToolEntry extends Placed {
  readonly kind: "tool";
  readonly call_id: string;
  readonly attempt_id: string;
  readonly tool_call_id: string;
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly bad_args: string;
  readonly opaque: Readonly<Record<string, string>>;
  readonly target: string;
  state: "asked" | "started" | "ended";
  output: string;
  output_chars: number;
  ok: boolean;
  result: string;
  ending: ToolEnding | null;
  parts: readonly Part[];
  blob: string;
  ms: number;
  /** The event since which the model no longer sees the result; 0 if it does. */
  trimmed_seq: number;
  /** When this page saw it start, by the log; 0 while it has not, or if that came before the window. */
  started_ms: number;
}

/** An approval (of `action`) or a question (`text`), and what became of it. */
export interface AskEntry extends Placed {
  readonly kind: "ask";
  readonly ask: "approval" | "question";
  readonly ask_id: string;
  readonly tool_call_id: string;
  readonly action: Action | null;
  readonly text: string;
  readonly findings: readonly string[];
  readonly choices: readonly string[];
  readonly expires_at_ms: number;
  readonly headline: string;
  readonly offers: readonly GrantOffer[];
  readonly once_because: string;
  state: AskState;
  answer: string;
  by: string;
  reason: string;
  /** Of the rule that "session" and "always" store. */
  width: Width;
}

/** Something that people are told about a run in one line. */
export interface NoticeEntry extends Placed {
  readonly kind: "notice";
  readonly notice: NoticeKind;
  readonly text: string;
  readonly until_ms: number;
  readonly upto_seq: number;
  readonly summary: string;
  /** The ids of what follows a summary word for word. */
  readonly pinned: readonly string[];
  /** Whether a person undid the compaction or trimming. */
  is_reverted: boolean;
}

/** How a run ended; `words` says it to a person. */
export interface EndingEntry extends Placed {
  readonly kind: "ending";
  readonly outcome: OutcomeKind;
  readonly cause: string;
  readonly words: string;
  readonly failure: Failure | null;
  readonly trace: readonly string[];
  /** The line under an interrupted run, if the server sent one. */
  readonly mark?: string;
}

export type Entry =
  | PersonEntry
  | TextEntry
  | ThinkingEntry
  | ToolEntry
  | AskEntry
  | NoticeEntry
  | EndingEntry;

type Bare<One> = One extends Entry ? Omit<One, "key" | "version" | "started_ms"> : never;

/** An entry as the server sends it. */
export type ShownEntry = Bare<Entry>;

function keyOf(shown: ShownEntry): string {
  switch (shown.kind) {
    case "person":
      return `person:${shown.message.client_id || shown.message.message_id}`;
    case "text":
    case "thinking":
      return `${shown.kind}:${shown.run_id}:${shown.attempt_id}:${shown.segment}:${shown.seq}`;
    case "tool":
      return `tool:${shown.run_id}:${shown.tool_call_id}:${shown.seq}`;
    case "ask":
      return `ask:${shown.ask_id}`;
    case "notice":
      return `notice:${shown.notice}:${shown.seq}`;
    case "ending":
      return `ending:${shown.run_id}`;
  }
}

/** The entry for a shape from the server or the fold. */
export function entryOf<One extends ShownEntry>(shown: One): Extract<Entry, { kind: One["kind"] }> {
  const own = { ...shown, key: keyOf(shown), version: signal(0) };
  const entry = shown.kind === "tool" ? { ...own, started_ms: 0 } : own;
  return entry as unknown as Extract<Entry, { kind: One["kind"] }>;
}

/** The entry in the server's shape again; what the golden logs compare. */
export function shown(entry: Entry): Record<string, unknown> {
  const fields: Record<string, unknown> = { ...entry };
  for (const own of ["key", "version", "started_ms"]) {
    delete fields[own];
  }
  return fields;
}

/** Where attached files are, for people. */
export function savedWords(files: readonly SavedFile[]): string {
  return files
    .map((file) =>
      file.path
        ? `Saved ${file.name} in the workspace: ${file.path}`
        : `Couldn't save ${file.name} in the workspace. ${file.why ?? ""}`,
    )
    .join(" · ");
}

const OUTCOMES: Readonly<Record<OutcomeKind, string>> = {
  completed: "Completed",
  refused: "Refused by the model",
  truncated: "Cut off at the length limit",
  budget: "Budget used up",
  failed: "Failed",
  cancelled: "Stopped",
  interrupted: "Interrupted",
};

const CAUSES: Readonly<Record<string, string>> = {
  user_stop: "",
  superseded: "a newer message replaced it",
  shutdown: "the server shut down",
  crash_loop: "the server restarted three times without progress",
  client_gone: "the client disconnected",
  content_filter: "blocked by the provider's filter",
  length: "",
  restart: "the server restarted",
  removed: "its message was removed",
  forked: "the rest is in the session this one was forked from",
  deleted: "the session was deleted",
  goal_blocked: "the goal can't be reached",
  rounds: "the goal wasn't reached in time",
  parent_stopped: "the agent that started it was stopped, or stopped it",
  parent_gone: "the session of the agent that started it was deleted",
  not_created: "it never began",
};

/** How a run ended, as one line for people; a cause without its own text is shown unchanged. */
export function endingWords(outcome: OutcomeKind, cause: string, failure: Failure | null): string {
  const why = failure === null ? (CAUSES[cause] ?? cause) : failure.text;
  return why ? `${OUTCOMES[outcome]}: ${why}` : OUTCOMES[outcome];
}
