/** A session as the page shows it: the same fold of the log as the server's, held to it by the golden logs.
 *
 * The fold judges nothing: it takes any event, and an event about something that it has never seen changes
 * nothing. What an event changed is gathered in `changes`, for the code that renders the view.
 */

import type { UndoShown } from "./bodies.ts";
import type * as e from "./events.ts";
import * as activities from "./view/activity.ts";
import type { Entry, Message, PersonEntry } from "./view/entries.ts";
import { entryOf } from "./view/entries.ts";
import * as inboxes from "./view/inbox.ts";
import { isRunStep, type RunStep } from "./view/run_steps.ts";
import { addUsage, newRun, noUsage, type RunView, type Tally } from "./view/runs.ts";
import { closeAsks, notice, ofAttempt, see } from "./view/steps.ts";

/** What changed since it was last looked at. */
export interface Changes {
  readonly entries: Set<Entry>;
  list: boolean;
  queue: boolean;
  runs: boolean;
}

/** The view after `lastSeq`; with `olderBefore` 0 it holds all entries, else those from that seq on. */
export interface View {
  lastSeq: number;
  epoch: string;
  title: string;
  workspace: string;
  /** Its permission mode; "" is the configured one. */
  mode: string;
  queuePaused: boolean;
  forkedFrom: readonly [string, number] | null;
  olderBefore: number;
  /** The ids of pinned messages, and of runs with a pinned answer. */
  pins: readonly string[];
  entries: Entry[];
  readonly placed: Map<string, PersonEntry>;
  readonly inbox: inboxes.Inbox;
  readonly runs: Map<string, RunView>;
  /** What all runs used, those above the window too. */
  readonly usage: Tally;
  /** The newest seq of each run, and of a rewind: what a page of older entries must not be older than. */
  readonly touched: Map<string, number>;
  rewoundSeq: number;
  /** The newest event about a sub-agent. */
  childrenSeq: number;
  /** What undos removed, the newest last. */
  readonly undone: Undone[];
  /** What can be redone, oldest first. */
  undos: readonly UndoShown[];
  /** The plans of the session, oldest first; of those before the window, only the newest. */
  plans: readonly SeenPlan[];
  /** The ids that clients gave to the messages that are here: what has them is no longer on its way. */
  readonly clientIds: Set<string>;
  readonly changes: Changes;
}

export function emptyView(): View {
  return {
    lastSeq: 0,
    epoch: "",
    title: "",
    workspace: "",
    mode: "",
    queuePaused: false,
    forkedFrom: null,
    olderBefore: 0,
    pins: [],
    entries: [],
    placed: new Map(),
    inbox: inboxes.emptyInbox(),
    runs: new Map(),
    usage: noUsage(),
    touched: new Map(),
    rewoundSeq: 0,
    childrenSeq: 0,
    undone: [],
    undos: [],
    plans: [],
    clientIds: new Set(),
    changes: { entries: new Set(), list: false, queue: false, runs: false },
  };
}

export function fold(records: Iterable<e.LogRecord>): View {
  const view = emptyView();
  for (const record of records) {
    apply(view, record);
  }
  return view;
}

/** The same view, one event later; an event that was applied before changes nothing. */
export function apply(view: View, record: e.LogRecord): View {
  if (record.seq > view.lastSeq) {
    take(view, record.seq, record);
    if ("run_id" in record && record.run_id) {
      view.touched.set(record.run_id, record.seq);
      const run = view.runs.get(record.run_id);
      if (run !== undefined && activities.take(run.activity, record)) {
        view.changes.runs = true;
      }
    }
    view.lastSeq = record.seq;
  }
  return view;
}

/** What the list's row or the live line says, and nothing in the transcript does. */
/** Events of logs that are no conversations. */
type InOtherLogs =
  | e.DeliveryIntended
  | e.DeliveryAttempted
  | e.DeliveryConfirmed
  | e.DeliveryPostponed
  | e.DeliveryRejected
  | e.DeliveryUnknown
  | e.ChannelConnected
  | e.ChannelFailed
  | e.ChannelCodeCreated
  | e.ChannelCodeTried
  | e.ChannelUserAllowed
  | e.ChannelUserRevoked
  | e.ChannelChatBound
  | e.ChannelModelChosen
  | e.ChannelUpdateLogged
  | e.ChannelResultRequested
  | e.ChannelHomeChosen
  | e.ChannelMessageClosed
  | e.HookDelivered
  | e.TriggerCreated
  | e.TriggerDue
  | e.TriggerEdited
  | e.TriggerFired
  | e.TriggerGaveUp
  | e.TriggerMissed
  | e.TriggerMissedAnswered
  | e.TriggerPaused
  | e.TriggerResumed
  | e.TriggerRunAsked
  | e.TriggerRunEnded
  | e.TriggerScriptEnded
  | e.TriggerScriptStarted
  | e.TriggerSkipped;

type Unseen =
  | e.SessionPinned
  | e.SessionUnpinned
  | e.SessionArchived
  | e.SessionUnarchived
  | e.SessionDeleted
  | e.SessionRestored
  | e.SessionMoved
  | e.SessionDefaultsSet
  | e.CallEnded
  | e.AttemptFailed
  | e.ClientToolsAsked
  | e.ClientToolsAnswered
  | e.ClientToolsExpired
  | e.ClientToolsWithdrawn
  | e.GrantAdded
  | e.GrantRemoved
  | e.ParentTold
  | e.RelayCalled
  | e.ContextRead
  | e.ContextSet
  | e.MemoryProposed
  | e.MemoryWritten
  | e.MemoryRejected
  | e.CredentialRefreshed
  | e.HookStarted
  | e.HookEnded
  | InOtherLogs;

function take(view: View, seq: number, event: e.AnyEvent): void {
  switch (event.type) {
    case "session.created":
      view.epoch = event.epoch;
      view.title = event.title ?? "";
      view.workspace = event.workspace ?? "";
      return;
    case "session.mode_set":
    case "session.mode_set/2":
      view.mode = event.mode === "allow-workspace" ? "workspace" : (event.mode ?? "");
      return;
    case "session.renamed":
      view.title = event.title;
      return;
    case "session.forked":
      view.forkedFrom = [event.source_session_id, event.at_seq];
      return;
    case "session.rewound":
      return rewound(view, seq, event);
    case "message.accepted":
    case "message.edited":
    case "message.moved":
    case "message.removed":
      return messaged(view, seq, event);
    case "message.dispatched":
      return dispatched(view, seq, event);
    case "queue.paused":
    case "queue.resumed":
      view.queuePaused = event.type === "queue.paused";
      view.changes.queue = true;
      return;
    case "run.queued":
      return runQueued(view, seq, event);
    case "run.started":
    case "attempt.superseded":
    case "run.ended":
      return taken(view, seq, event);
    case "usage":
      return used(view, event);
    case "stop.requested":
      return stopRequested(view, event);
    case "snapshot.taken":
      return snapshotTaken(view, event);
    case "plan.updated":
      return planUpdated(view, seq, event);
    case "child.started":
    case "child.ended":
    case "child.asked":
    case "child.ask_settled":
      view.childrenSeq = seq;
      view.changes.runs = true;
      return;
    case "output.recovered":
      return recovered(view, event);
    case "context.trimmed":
      trimmed(view, seq, event);
      return ofRun(view, seq, event);
    case "context.reverted":
      return reverted(view, event);
    case "message.pinned":
    case "message.unpinned":
      return pinned(view, event);
    default:
      if (isRunStep(event)) {
        return ofRun(view, seq, event);
      }
      // An event of a newer server has its place in the log, and this page shows nothing of it.
      event satisfies Unseen;
  }
}

function trimmed(view: View, seq: number, event: e.ContextTrimmed): void {
  for (const result of event.results) {
    const card = view.runs.get(result.run_id)?.tools.get(result.tool_call_id);
    if (card !== undefined) {
      card.trimmed_seq = seq;
      view.changes.entries.add(card);
    }
  }
}

/** The model sees again what a compaction or trimming took away. */
function reverted(view: View, event: e.ContextReverted): void {
  for (const entry of view.entries) {
    if (entry.kind === "tool" && entry.trimmed_seq === event.reverted_seq) {
      entry.trimmed_seq = 0;
      view.changes.entries.add(entry);
    } else if (entry.kind === "notice" && entry.seq === event.reverted_seq) {
      entry.is_reverted = true;
      view.changes.entries.add(entry);
    }
  }
}

function pinned(view: View, event: e.MessagePinned | e.MessageUnpinned): void {
  const id = event.message_id || event.answer_of || "";
  view.pins = event.type === "message.pinned" ? [...view.pins, id] : view.pins.filter((one) => one !== id);
  view.changes.list = true;
}

function ofRun(view: View, seq: number, event: RunStep): void {
  const run = view.runs.get(event.run_id);
  if (run === undefined) {
    return;
  }
  const seen = see(run, seq, event);
  if (seen.brought !== undefined) {
    view.entries.push(seen.brought);
    view.changes.list = true;
  }
  if (seen.changed !== undefined) {
    view.changes.entries.add(seen.changed);
  }
  ranOn(view, run, event);
}

/** What an event says of the run itself, besides its entries. */
function ranOn(view: View, run: RunView, event: RunStep): void {
  switch (event.type) {
    case "run.started":
      run.phase = "running";
      run.started_ms = event.at_ms;
      break;
    case "run.ended":
      run.phase = "ended";
      run.gate_until_ms = 0;
      break;
    case "attempt.started":
      run.gate_until_ms = 0;
      break;
    case "call.gated":
      run.gate_until_ms = event.until_ms;
      break;
    case "text.delta":
    case "text.done":
    case "reasoning.delta":
    case "reasoning.done":
    case "tool.output":
      return;
    default:
      break;
  }
  view.changes.runs = true;
}

/** Events of a run that also move messages or take entries away. */
function taken(view: View, seq: number, event: e.RunStarted | e.AttemptSuperseded | e.RunEnded): void {
  const run = view.runs.get(event.run_id);
  if (run === undefined) {
    return;
  }
  switch (event.type) {
    case "run.started": {
      const message = view.inbox.messages.get(run.message_id);
      if (message?.state === "queued" && message.run_id === run.run_id) {
        inboxes.handOver(view.inbox, message, run.run_id);
        takeUp(view, seq, run, message);
      }
      break;
    }
    case "attempt.superseded":
      view.entries = view.entries.filter((entry) => !ofAttempt(entry, run.run_id, event.attempt_id));
      view.changes.list = true;
      break;
    case "run.ended":
      if (run.ending !== null) {
        return;
      }
      for (const message of inboxes.runEnded(view.inbox, run.run_id)) {
        takeUp(view, seq, run, message);
      }
      touch(view, closeAsks(run));
      view.changes.queue = true;
      break;
    default:
      event satisfies never;
  }
  ofRun(view, seq, event);
}

function touch(view: View, entries: Iterable<Entry>): void {
  for (const entry of entries) {
    view.changes.entries.add(entry);
  }
}

function messaged(
  view: View,
  seq: number,
  event: e.MessageAccepted | e.MessageEdited | e.MessageMoved | e.MessageRemoved,
): void {
  view.changes.queue = true;
  switch (event.type) {
    case "message.accepted": {
      const run = view.runs.get(event.run_id ?? "");
      if (event.client_id) {
        view.clientIds.add(event.client_id);
      }
      return inboxes.accept(view.inbox, seq, event, run !== undefined && run.ending === null);
    }
    case "message.edited":
      return inboxes.edit(view.inbox, event);
    case "message.moved":
      return inboxes.move(view.inbox, event.message_id, event.position);
    case "message.removed":
      return inboxes.remove(view.inbox, event.message_id);
    default:
      event satisfies never;
  }
}

function runQueued(view: View, seq: number, event: e.RunQueued): void {
  if (!view.runs.has(event.run_id)) {
    view.runs.set(event.run_id, newRun(event, seq));
    // Only an undo that nothing followed can bring its entries back.
    view.undone.splice(0, view.undone.length - 1);
    chatWentOn(view);
  }
  inboxes.queueFor(view.inbox, event.message_id, event.run_id);
  view.changes.queue = true;
  view.changes.runs = true;
}

function dispatched(view: View, seq: number, event: e.MessageDispatched): void {
  const run = view.runs.get(event.run_id);
  const message = view.inbox.messages.get(event.message_id);
  if (run === undefined || message === undefined) {
    return;
  }
  inboxes.handOver(view.inbox, message, run.run_id);
  view.changes.queue = true;
  takeUp(view, seq, run, message);
  if (message.message_id !== run.message_id) {
    const applied = notice(run, seq, event, "steered", "Delivered to the running agent.");
    run.entries.push(applied);
    view.entries.push(applied);
  }
}

/** The message takes its place, which is a later one than before if another run had it. */
function takeUp(view: View, seq: number, run: RunView, message: Message): void {
  const earlier = view.placed.get(message.message_id);
  if (earlier !== undefined && earlier.run_id === run.run_id) {
    return;
  }
  if (earlier !== undefined) {
    view.entries = view.entries.filter((entry) => entry !== earlier);
  }
  const person = entryOf({ kind: "person", seq, at_ms: message.at_ms, run_id: run.run_id, message });
  view.placed.set(message.message_id, person);
  run.entries.push(person);
  view.entries.push(person);
  view.changes.list = true;
  view.changes.queue = true;
}

function snapshotTaken(view: View, event: e.SnapshotTaken): void {
  const run = view.runs.get(event.run_id);
  if (run !== undefined && event.when === "after") {
    run.files_changed = event.changed ?? 0;
    view.changes.runs = true;
  }
}

/** A plan, and the event that has it. */
export interface SeenPlan {
  readonly seq: number;
  readonly run_id: string;
  readonly steps: readonly e.PlanStep[];
  readonly accepted?: boolean;
}

function planUpdated(view: View, seq: number, event: e.PlanUpdated): void {
  const { run_id, steps, accepted = false } = event;
  view.plans = [...view.plans, { seq, run_id, steps, accepted }];
  const run = view.runs.get(run_id);
  if (run !== undefined && accepted) {
    run.is_planning = false;
  }
  view.changes.runs = true;
}

/** What an undo removed. */
export interface Undone {
  readonly undo_id: string;
  readonly entries: readonly Entry[];
  readonly placed: ReadonlyMap<string, PersonEntry>;
  readonly plans: readonly SeenPlan[];
}

/** Puts back what the newest undo removed. */
function bringBack(view: View, undo_id: string): void {
  if (view.undone.at(-1)?.undo_id !== undo_id) return;
  const undone = view.undone.pop() as Undone;
  view.entries = [...view.entries, ...undone.entries];
  for (const [id, person] of undone.placed) {
    view.placed.set(id, person);
  }
  view.plans = [...view.plans, ...undone.plans];
}

/** From now on, a redo of an earlier undo brings back files only. */
function chatWentOn(view: View): void {
  view.undos = view.undos.map((undo) => ({ ...undo, returns_chat: false }));
}

function redone(view: View, { redoes, keeps_log }: Undo): void {
  const before = view.undos.find((one) => one.undo_id === redoes);
  if (!keeps_log) bringBack(view, redoes ?? "");
  if (!(keeps_log && before?.turns)) {
    view.undos = view.undos.filter((one) => one !== before);
    return;
  }
  // Its turns stay away, but can still be opened in a new chat.
  view.undos = view.undos.map((one) => (one === before ? { ...one, files_redone: true } : one));
  // Those of earlier undos came after them.
  if (before.returns_chat) chatWentOn(view);
}

type Undo = NonNullable<e.SessionRewound["undo"]>;

function rewound(view: View, seq: number, event: e.SessionRewound): void {
  const { undo } = event;
  view.changes.list = true;
  if (undo?.redoes) {
    redone(view, undo);
    return;
  }
  if (!undo) {
    view.undone.length = 0;
    chatWentOn(view);
  } else {
    const { undo_id, run_id, files, runs = [], turns = 0, keeps_log = false } = undo;
    if (!keeps_log) {
      const gone = ({ seq: at }: { readonly seq: number }): boolean => at > event.to_seq;
      view.undone.push({
        undo_id,
        entries: view.entries.filter(gone),
        placed: new Map([...view.placed].filter(([, person]) => gone(person))),
        plans: view.plans.filter(gone),
      });
    }
    view.undos = [
      ...view.undos,
      {
        ...{ undo_id, run_id, seq, at_ms: event.at_ms, files, partial: runs.length === 0 },
        ...{ turns: keeps_log ? 0 : turns || runs.length, returns_chat: !keeps_log },
      },
    ];
  }
  const stays = (one: { readonly seq: number }) => one.seq <= event.to_seq;
  view.entries = view.entries.filter(stays);
  view.plans = view.plans.filter(stays);
  for (const [id, person] of view.placed) {
    if (!stays(person)) {
      view.placed.delete(id);
    }
  }
  // what a run says from here on gets an entry of its own
  for (const run of view.runs.values()) {
    run.texts = new Map([...run.texts].filter(([, text]) => stays(text)));
    run.thoughts = new Map([...run.thoughts].filter(([, thought]) => stays(thought)));
  }
  view.rewoundSeq = seq;
}

function used(view: View, event: e.Usage): void {
  addUsage(view.usage, event);
  const run = view.runs.get(event.run_id);
  if (run !== undefined) {
    addUsage(run.usage, event);
    if (run.answers && !event.estimated) {
      run.context_tokens = (event.input_tokens ?? 0) + (event.output_tokens ?? 0);
    }
  }
  view.changes.runs = true;
}

function stopRequested(view: View, event: e.StopRequested): void {
  const run = view.runs.get(event.run_id);
  if (run !== undefined && run.phase !== "ended") {
    run.phase = "stopping";
    run.stop_cause ||= event.cause ?? "user_stop";
    view.changes.runs = true;
  }
}

/** The output takes its place above the run's ending, or none if that was rewound. */
function recovered(view: View, event: e.OutputRecovered): void {
  const run = view.runs.get(event.run_id);
  const ending = run?.ending;
  if (run === undefined || ending === null || ending === undefined) {
    return;
  }
  run.entries.pop();
  const at = view.entries.indexOf(ending);
  const below = at < 0 ? [] : view.entries.slice(at);
  view.entries = at < 0 ? view.entries : view.entries.slice(0, at);
  for (const inner of event.events) {
    // a late ending changes nothing: the run has its one
    if (isRunStep(inner)) {
      take(view, ending.seq, inner);
    }
  }
  run.phase = "ended";
  touch(view, closeAsks(run));
  run.entries.push(ending);
  if (at < 0) {
    view.entries = view.entries.filter((entry) => entry.seq !== ending.seq);
  }
  view.entries.push(...below);
  view.changes.list = true;
}
