/** What the page keeps and shows beside a session's entries. */

import type { ReadonlySignal, Signal } from "@preact/signals";
import type { Trouble } from "../api.ts";
import type { HitShown, SessionShown, UndoShown } from "../bodies.ts";
import type { Part } from "../events.ts";
import type { AskEntry, Entry, Message } from "../view/entries.ts";
import type { RunView, Tally } from "../view/runs.ts";
import type { SeenPlan } from "../view.ts";

/** A session that was found by its text. */
export type FoundSession = SessionShown & { readonly hit: HitShown };

/** What a search brought, or that it is under way. */
export interface Search {
  readonly words: string;
  readonly busy: boolean;
  readonly found: readonly FoundSession[];
  readonly trouble: Trouble | null;
}

/** Where the page stands towards the server; "offline" is the browser's own word for having no network. */
export type Connection = "connecting" | "live" | "reconnecting" | "offline" | "signed-out";

/** What a run is waiting for right now, in the server's words; never stored. */
export interface LiveLine {
  readonly run_id: string;
  readonly text: string;
  readonly at_ms: number;
}

export type Theme = "system" | "light" | "dark";
export type SendKey = "enter" | "mod-enter";

/** What this browser was told to do; kept in its local storage. */
export interface Settings {
  readonly theme: Theme;
  readonly sendKey: SendKey;
  readonly notifications: boolean;
  /** Whether single keys are shortcuts while nobody types. */
  readonly bareKeys: boolean;
  readonly model: string;
  /** How much the model thinks; "" leaves it to the model. */
  readonly effort: string;
  /** The temperature, and the longest answer in tokens, as numbers; "" leaves them to the model. */
  readonly temperature: string;
  readonly maxTokens: string;
  readonly sidebar: "open" | "closed";
}

/** How a message is meant while a run is under way: wait, be heard at once, or take the run's place. */
export type SendMode = "queue" | "steer" | "redirect";

/** How the run works: as usual, with a plan that a person accepts first, or by itself towards a goal. */
export type SendWay = "" | "plan" | "goal" | "command";

/** A message on its way to the server; it stays here, and in the browser, until the server has it. */
export interface Pending {
  readonly client_id: string;
  readonly session_id: string;
  readonly text: string;
  readonly parts: readonly Part[];
  readonly mode: SendMode;
  readonly model: string;
  /** Effort, temperature and length, as the server names them. */
  readonly options?: Readonly<Record<string, string | number>>;
  /** Plan it first, work on it until it is reached, or run it as a shell command; a message of an earlier page has no such word. */
  readonly way?: SendWay;
  /** The permission mode of a new session; "" or none is the configured one. */
  readonly permission?: string;
  readonly made_ms: number;
  /** "sent" is on the server's disk, and its event is on the way here. */
  readonly state: "sending" | "sent" | "failed";
  readonly trouble: Trouble | null;
}

/** How full the model's context is; `window` 0 is not known. */
export interface ContextUse {
  readonly used: number;
  readonly window: number;
}

/** The context as the server measured it, and how many tokens the last call had used by then. */
export interface MeasuredContext extends ContextUse {
  readonly of: number;
}

/** "new" is not on the server yet, "gone" was deleted or never was, "failed" could not be loaded (see trouble). */
export type SessionStage = "new" | "loading" | "ready" | "gone" | "failed";

/** The open session: each part is a signal of its own, so that a change re-renders what shows it alone.
 *
 * An entry is a stable object: read `entry.version.value` in the component that shows it, and nothing else
 * re-renders while its text grows. `entries` changes only when an entry comes or goes.
 */
export interface OpenSession {
  readonly id: string;
  readonly stage: ReadonlySignal<SessionStage>;
  readonly trouble: ReadonlySignal<Trouble | null>;
  readonly row: ReadonlySignal<SessionShown | null>;
  readonly title: ReadonlySignal<string>;
  readonly entries: ReadonlySignal<readonly Entry[]>;
  readonly pending: ReadonlySignal<readonly Pending[]>;
  readonly waiting: ReadonlySignal<readonly Message[]>;
  readonly queuePaused: ReadonlySignal<boolean>;
  readonly runs: ReadonlySignal<ReadonlyMap<string, RunView>>;
  /** The run that has the session's one slot; a new signal value whenever its status changes. */
  readonly currentRun: ReadonlySignal<RunView | null>;
  readonly openAsks: ReadonlySignal<readonly AskEntry[]>;
  readonly lastSeq: ReadonlySignal<number>;
  readonly usage: ReadonlySignal<Tally>;
  readonly context: ReadonlySignal<ContextUse>;
  /** Counts until the next call: what was summarized or reverted since the last one is in it. */
  readonly measured: Signal<MeasuredContext | null>;
  readonly hasOlder: ReadonlySignal<boolean>;
  readonly loadingOlder: ReadonlySignal<boolean>;
  /** What is written and not sent; write it through `saveDraft`. */
  readonly draft: ReadonlySignal<string>;
  /** What stands under runs that nobody carries on, by run id. */
  readonly marks: ReadonlySignal<Readonly<Record<string, string>>>;
  /** Whether no server has the session's files, so that its runs wait. */
  readonly isAway: ReadonlySignal<boolean>;
  /** The newest plan. */
  readonly plan: ReadonlySignal<SeenPlan | null>;
  /** The chat that it was forked from; "" if it wasn't, or if it's a version of that chat. */
  readonly forkedFrom: ReadonlySignal<string>;
  /** The chats with versions of its messages, as of when it was loaded. */
  readonly versions: ReadonlySignal<readonly string[]>;
  /** What can be redone, oldest first. */
  readonly undos: ReadonlySignal<readonly UndoShown[]>;
  /** The ids of pinned messages, and of runs with a pinned answer. */
  readonly pins: ReadonlySignal<readonly string[]>;
  /** Whether the next message stays in plan mode, as the newest run was. */
  readonly isPlanning: ReadonlySignal<boolean>;
  /** Its permission mode; "" is the configured one. */
  readonly mode: ReadonlySignal<string>;
  /** The newest event about a sub-agent that came since the page was loaded. */
  readonly childrenSeq: ReadonlySignal<number>;
  /** What a search found here and the reader is to see; null without one. */
  readonly target: ReadonlySignal<Hit | null>;
  /** Why what a search found could not be shown; empty if it could. */
  readonly missed: ReadonlySignal<string>;
}

/** Where a search found something: the event, and some of the text around it. */
export interface Hit {
  readonly seq: number;
  readonly passage: string;
}

/** What the server says about itself, and what the key may do that this page signed in with. */
export interface Server {
  readonly version: string;
  readonly model: string;
  readonly auth: boolean;
  readonly scopes: readonly string[];
  /** The features that the server has are true. */
  readonly features: Readonly<Record<string, unknown>>;
  /** One line about what commands run in; empty if the server doesn't say. */
  readonly sandbox: string;
  /** The configured permission mode, and those that this key can set. */
  readonly mode: string;
  readonly modes: readonly string[];
}
