/** The open session: its fold, and the signals by which components see it. */

import { batch, computed, type ReadonlySignal, signal } from "@preact/signals";
import type { Trouble } from "../api.ts";
import type { SessionShown, UndoShown } from "../bodies.ts";
import type { LogRecord } from "../events.ts";
import type { AskEntry, Entry, Message } from "../view/entries.ts";
import { waiting } from "../view/inbox.ts";
import { noUsage, openAsks, type RunView, type Tally } from "../view/runs.ts";
import { placeOf } from "../view/versions.ts";
import {
  type Added,
  addOlder,
  type NewestPage,
  type Page,
  reachesAbove,
  trim,
  viewOf,
} from "../view/window.ts";
import { apply, emptyView, type SeenPlan, type View } from "../view.ts";
import { forReaders } from "./frames.ts";
import { pendingOf } from "./outbox.ts";
import type { ContextUse, Hit, MeasuredContext, OpenSession, Pending, SessionStage } from "./page_state.ts";
import { openRow, saved, sessions, storeError, targets } from "./signals.ts";

/** Whether it is what a person said, which tells nothing about whether anyone hears it. */
export function isSaid({ type }: LogRecord): boolean {
  return type.startsWith("message.");
}

export class Opened implements OpenSession {
  readonly id: string;
  readonly stage = signal<SessionStage>("loading");
  readonly trouble = signal<Trouble | null>(null);
  readonly entries = signal<readonly Entry[]>([]);
  readonly waiting = signal<readonly Message[]>([]);
  readonly queuePaused = signal(false);
  readonly runs = signal<ReadonlyMap<string, RunView>>(new Map());
  readonly currentRun = signal<RunView | null>(null);
  readonly openAsks = signal<readonly AskEntry[]>([]);
  readonly lastSeq = signal(0);
  readonly usage = signal<Tally>(noUsage());
  readonly hasOlder = signal(false);
  readonly loadingOlder = signal(false);
  readonly draft = signal("");
  readonly marks = signal<Readonly<Record<string, string>>>({});
  readonly isAway = signal(false);
  readonly plan = signal<SeenPlan | null>(null);
  readonly forkedFrom = signal("");
  readonly versions = signal<readonly string[]>([]);
  readonly undos = signal<readonly UndoShown[]>([]);
  readonly isPlanning = signal(false);
  readonly mode = signal("");
  readonly pins = signal<readonly string[]>([]);
  readonly childrenSeq = signal(0);
  readonly measured = signal<MeasuredContext | null>(null);
  readonly target = signal<Hit | null>(null);
  readonly missed = signal("");
  readonly row: ReadonlySignal<SessionShown | null>;
  readonly title: ReadonlySignal<string>;
  readonly pending: ReadonlySignal<readonly Pending[]>;
  readonly context: ReadonlySignal<ContextUse>;
  view: View = emptyView();
  readonly #named = signal("");
  readonly #known = signal<ReadonlySet<string>>(new Set());
  /** Let components see what changed, if anyone looks; else in a while. */
  readonly showToReaders = forReaders(() => this.show());

  constructor(id: string) {
    this.id = id;
    this.row = computed(() => {
      const own = openRow.value?.id === id ? openRow.value : null;
      return sessions.value.find((row) => row.id === id) ?? own;
    });
    this.title = computed(() => this.row.value?.title || this.#named.value);
    this.pending = computed(() => pendingOf(id).filter((one) => !this.#known.value.has(one.client_id)));
    this.context = computed(() => {
      const newest = [...this.runs.value.values()].filter((run) => run.context_tokens > 0).at(-1);
      const target = targets.value.find((one) => one.name === newest?.target) ?? targets.value[0];
      const used = newest?.context_tokens ?? 0;
      const measured = this.measured.value;
      return measured?.of === used ? measured : { used, window: target?.context_window ?? 0 };
    });
  }

  /** Start again from the server's state of the session. */
  load(page: NewestPage & { readonly session: SessionShown }): void {
    this.view = viewOf(page);
    this.versions.value = page.versions ?? [];
    openRow.value = page.session;
    this.remark(page);
    this.stage.value = "ready";
    this.trouble.value = null;
    this.#changedAll();
    this.show();
  }

  /** What the server says about runs that nobody carries on, unless more has happened since. */
  remark({ marks = {}, is_away = false, last_seq }: Page): void {
    if (last_seq >= this.view.lastSeq) {
      this.marks.value = marks;
      this.isAway.value = is_away;
    }
  }

  /** The next event; false if it is not the next one, or about what is not here: then the view must be loaded again. */
  take(record: LogRecord): boolean {
    const view = this.view;
    if (record.seq <= view.lastSeq) {
      return record.type !== "session.created" || record.epoch === view.epoch;
    }
    if (record.seq !== view.lastSeq + 1 || reachesAbove(view, record)) {
      return false;
    }
    apply(view, record);
    if ("run_id" in record && record.run_id && record.run_id in this.marks.value && !isSaid(record)) {
      // Somebody carries it on.
      const { [record.run_id]: _, ...others } = this.marks.value;
      this.marks.value = others;
      this.isAway.value = false;
    }
    return true;
  }

  /** Lets the oldest entries go, so that a session that was read far upwards is light again. */
  trim(kept: number): void {
    trim(this.view, kept);
    this.show();
  }

  addOlder(page: Page): Added {
    const added = addOlder(this.view, page);
    if (added === "added") {
      this.show();
    }
    return added;
  }

  /** Whether a message of this client id is in the log as far as it was read. */
  has(clientId: string): boolean {
    return this.view.clientIds.has(clientId);
  }

  /** Let components see what changed. */
  show(): void {
    const { view } = this;
    const { changes } = view;
    batch(() => {
      this.childrenSeq.value = view.childrenSeq;
      for (const entry of changes.entries) {
        entry.version.value += 1;
      }
      changes.entries.clear();
      if (changes.list) {
        this.entries.value = [...view.entries];
        this.hasOlder.value = view.olderBefore > 0;
      }
      if (changes.queue) {
        this.waiting.value = waiting(view.inbox).map((message) => ({ ...message }));
        this.queuePaused.value = view.queuePaused;
        this.#known.value = new Set(view.clientIds);
      }
      if (changes.runs || changes.list) {
        this.#showRuns();
      }
      changes.list = changes.queue = changes.runs = false;
      this.#named.value = view.title;
      this.forkedFrom.value = placeOf(this.id) === null ? (view.forkedFrom?.[0] ?? "") : "";
      this.mode.value = view.mode;
      this.pins.value = view.pins;
      this.lastSeq.value = view.lastSeq;
      if (saved.peek() !== view.lastSeq) {
        storeError.value = "";
      }
      saved.value = view.lastSeq;
    });
  }

  #showRuns(): void {
    // Runs of an older page come later, and are no newer for that.
    const runs = [...this.view.runs.values()].sort((a, b) => a.first_seq - b.first_seq);
    const current = runs.find((run) => run.phase === "running" || run.phase === "stopping");
    this.runs.value = new Map(runs.map((run) => [run.run_id, run]));
    this.currentRun.value = current === undefined ? null : { ...current };
    this.openAsks.value = runs.flatMap((run) => (run.phase === "ended" ? [] : openAsks(run)));
    this.usage.value = { ...this.view.usage };
    this.plan.value = this.view.plans.at(-1) ?? null;
    this.undos.value = this.view.undos;
    this.isPlanning.value = runs.at(-1)?.is_planning ?? false;
  }

  #changedAll(): void {
    const { changes } = this.view;
    changes.list = changes.queue = changes.runs = true;
  }
}
