/** A window on a long session: its newest entries and what the fold needs to go on from there. */

import type { SupersededTextShown, UndoShown } from "../bodies.ts";
import type { LogRecord } from "../events.ts";
import { emptyView, type SeenPlan, type View } from "../view.ts";
import type { Activity } from "./activity.ts";
import { type Entry, entryOf, type Message, type ShownEntry } from "./entries.ts";
import type { Phase, RunView, Tally } from "./runs.ts";

/** A run as a page of entries brings it; `texts` and `thoughts` are the seqs of those that still grow. */
export interface PageRun {
  readonly run_id: string;
  readonly message_id: string;
  readonly model: string;
  readonly first_seq: number;
  readonly created_ms: number;
  readonly started_ms: number;
  readonly updated_ms: number;
  readonly phase: Phase;
  readonly stop_cause: string;
  readonly gate_until_ms: number;
  readonly call_id: string;
  readonly attempt_id: string;
  readonly target: string;
  readonly answers: boolean;
  readonly context_tokens: number;
  readonly usage: Tally;
  readonly doing: Activity;
  readonly texts: readonly number[];
  readonly thoughts: readonly number[];
  readonly files_changed?: number;
  readonly is_planning?: boolean;
  readonly superseded?: SupersededTextShown | null;
}

/** A page of entries, oldest first, as of `last_seq` in the log. */
export interface Page {
  readonly data: readonly ShownEntry[];
  readonly next_before: number | null;
  readonly last_seq: number;
  readonly marks?: Readonly<Record<string, string>>;
  readonly is_away?: boolean;
  readonly runs: readonly PageRun[];
}

/** The newest page: with it comes all that the fold needs to go on. */
export interface NewestPage extends Page {
  readonly title: string;
  readonly epoch: string;
  readonly workspace: string;
  readonly permission_mode?: string;
  readonly forked_from?: string;
  readonly queue_paused: boolean;
  readonly waiting: readonly Message[];
  readonly usage: Tally;
  readonly live: Readonly<Record<string, string>>;
  readonly plan?: SeenPlan | null;
  readonly undos?: readonly UndoShown[];
  readonly versions?: readonly string[];
  readonly pins?: readonly string[];
}

/** The view as of the page's `last_seq`, from the page's first entry on. */
export function viewOf(page: NewestPage): View {
  const view: View = {
    ...emptyView(),
    lastSeq: page.last_seq,
    epoch: page.epoch,
    title: page.title,
    workspace: page.workspace,
    mode: page.permission_mode ?? "",
    forkedFrom: page.forked_from ? [page.forked_from, 0] : null,
    queuePaused: page.queue_paused,
    olderBefore: page.next_before ?? 0,
    usage: { ...page.usage },
    plans: page.plan ? [page.plan] : [],
    undos: page.undos ?? [],
    pins: page.pins ?? [],
  };
  for (const message of page.waiting) {
    view.inbox.messages.set(message.message_id, { ...message });
    view.clientIds.add(message.client_id);
    (message.state === "steering" ? view.inbox.steering : view.inbox.queue).push(message.message_id);
  }
  view.entries = settled(view, page);
  return view;
}

/** What became of a page of older entries: "ahead" must wait for the stream, "stale" must be read again. */
export type Added = "added" | "ahead" | "stale";

/** Puts older entries above the window, if the page is of the same log as the view. */
export function addOlder(view: View, page: Page): Added {
  if (page.last_seq > view.lastSeq) {
    return "ahead";
  }
  if (view.rewoundSeq > page.last_seq || page.data.some((shown) => mayHaveChanged(view, page, shown))) {
    return "stale";
  }
  const known = new Set(view.entries.map((entry) => entry.key));
  const older = settled(view, page).filter((entry) => !known.has(entry.key));
  view.entries = [...older, ...view.entries];
  view.olderBefore = page.next_before ?? 0;
  view.changes.list = true;
  return "added";
}

/** Whether an event after the page may be about this entry. */
function mayHaveChanged(view: View, page: Page, shown: ShownEntry): boolean {
  if ((view.touched.get(shown.run_id) ?? 0) <= page.last_seq) {
    return false;
  }
  switch (shown.kind) {
    case "text":
    case "thinking":
      return !shown.done || shown.attempt_id === view.runs.get(shown.run_id)?.attempt_id;
    case "tool":
      return shown.state !== "ended";
    case "ask":
      return shown.state === "open";
    case "ending":
      return true;
    case "person":
    case "notice":
      return false;
  }
}

/** The page's entries, known to their runs and messages. */
function settled(view: View, page: Page): Entry[] {
  for (const run of page.runs) {
    if (!view.runs.has(run.run_id)) {
      view.runs.set(run.run_id, runOf(run));
    }
  }
  const growing = new Map(page.runs.map((run) => [run.run_id, new Set([...run.texts, ...run.thoughts])]));
  const before = new Map<RunView, Entry[]>();
  const entries = page.data.map((shown) => {
    const { role: _, content: __, message_id: ___, ...bare } = shown as ShownEntry & Extra;
    const entry: Entry = entryOf(bare as ShownEntry);
    const run = view.runs.get(entry.run_id);
    if (run !== undefined) {
      before.set(run, [...(before.get(run) ?? []), entry]);
      register(view, run, entry, growing.get(run.run_id)?.has(entry.seq) ?? false);
    }
    return entry;
  });
  for (const [run, older] of before) {
    run.entries = [...older, ...run.entries];
  }
  return entries;
}

/** What entries carry besides for clients that know no kinds. */
interface Extra {
  readonly role?: string;
  readonly content?: string;
  readonly message_id?: string;
}

function register(view: View, run: RunView, entry: Entry, grows: boolean): void {
  switch (entry.kind) {
    case "person":
      if (!view.inbox.messages.has(entry.message.message_id)) {
        view.inbox.messages.set(entry.message.message_id, entry.message);
      }
      view.placed.set(entry.message.message_id, entry);
      view.clientIds.add(entry.message.client_id);
      break;
    case "text":
      if (grows) {
        run.texts.set(entry.segment, entry);
      }
      break;
    case "thinking":
      if (grows) {
        run.thoughts.set(entry.segment, entry);
      }
      break;
    case "tool":
      if (!run.tools.has(entry.tool_call_id)) {
        run.tools.set(entry.tool_call_id, entry);
      }
      break;
    case "ask":
      run.asks.set(entry.ask_id, entry);
      break;
    case "ending":
      run.ending = entry;
      break;
    case "notice":
      break;
    default:
      entry satisfies never;
  }
}

function runOf({ doing, ...run }: PageRun): RunView {
  return {
    ...run,
    files_changed: run.files_changed ?? 0,
    is_planning: run.is_planning ?? false,
    superseded: run.superseded ?? null,
    activity: doing,
    usage: { ...run.usage },
    texts: new Map(),
    thoughts: new Map(),
    tools: new Map(),
    asks: new Map(),
    entries: [],
    ending: null,
  };
}

/** Lets the oldest entries go until about so many are left; they can be read again. What may change stays. */
export function trim(view: View, kept: number): void {
  const from = Math.max(0, view.entries.length - kept);
  const open = view.entries.findIndex((entry) => view.runs.get(entry.run_id)?.phase !== "ended");
  const first = view.entries[open < 0 ? from : Math.min(open, from)];
  if (first === undefined) {
    return;
  }
  // Entries of one event stay together, as they do on a page.
  const at = view.entries.findIndex((entry) => entry.seq >= first.seq);
  if (at <= 0) {
    return;
  }
  const gone = new Set(view.entries.slice(0, at));
  view.entries = view.entries.slice(at);
  view.olderBefore = first.seq;
  for (const run of view.runs.values()) {
    forget(run, gone);
  }
  for (const [id, person] of view.placed) {
    if (gone.has(person)) {
      view.placed.delete(id);
      view.inbox.messages.delete(id);
    }
  }
  view.changes.list = true;
}

function forget(run: RunView, gone: ReadonlySet<Entry>): void {
  run.entries = run.entries.filter((entry) => !gone.has(entry));
  run.tools = new Map([...run.tools].filter(([, card]) => !gone.has(card)));
  run.asks = new Map([...run.asks].filter(([, card]) => !gone.has(card)));
  if (run.entries.length === 0) {
    run.texts = new Map();
    run.thoughts = new Map();
  }
}

/** Whether the event is about something above the window, so that only a new look at the server helps. */
export function reachesAbove(view: View, record: LogRecord): boolean {
  // What an undo took away before this window was read is only on the server.
  if (record.type === "session.rewound" && record.undo?.redoes && !record.undo.keeps_log) {
    return view.undone.at(-1)?.undo_id !== record.undo.redoes;
  }
  // Which plan counts then, only the server knows.
  if (record.type === "session.rewound" && (view.plans[0]?.seq ?? 0) > record.to_seq) {
    return true;
  }
  if (view.olderBefore === 0) {
    return false;
  }
  switch (record.type) {
    case "session.rewound":
      return record.to_seq < (view.entries[0]?.seq ?? Number.POSITIVE_INFINITY);
    case "run.queued":
      return !view.inbox.messages.has(record.message_id);
    case "output.recovered":
    // It may continue a text above.
    case "context.trimmed":
    case "context.reverted":
      // It may concern tool results above.
      return true;
    default:
      return false;
  }
}
