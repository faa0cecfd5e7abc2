/** A stretch of the open session's log, read from the server and followed while it grows. */
import { effect, type Signal, useSignal } from "@preact/signals";
import { useCallback, useEffect } from "preact/hooks";
import { logPage, session } from "../state.ts";
import { type Logged, loggedPage } from "./log_rows.ts";

const PAGE = 1000;
const PAUSE_MS = 400;
const AFTER_TROUBLE_MS = 3_000;
/** Past this what is shown is the newest part. */
const KEPT_MAX = 50_000;

/** Which part of the log: that of one run, or without a run the whole of it, from its newest pages on. */
export interface Scope {
  readonly sessionId: string;
  readonly runId: string;
  readonly firstSeq: number;
}

export interface FollowedLog {
  readonly log: readonly Logged[];
  readonly busy: boolean;
  readonly trouble: string;
  /** The seq below which there is more, 0 if there is nothing. */
  readonly before: number;
  /** The newest seq that was read, also if it is another run's. */
  readonly after: number;
}

const NOTHING: FollowedLog = { log: [], busy: true, trouble: "", before: 0, after: 0 };

/** The log so far, and how to read further back. */
export function useFollowedLog({ sessionId, runId, firstSeq }: Scope): FollowedLog & { older: () => void } {
  const state = useSignal<FollowedLog>(NOTHING);
  useEffect(() => {
    const gone = new AbortController();
    void follow({ sessionId, runId, firstSeq }, state, gone.signal);
    return () => gone.abort();
  }, [sessionId, runId, firstSeq, state]);
  const older = useCallback(() => void readOlder(sessionId, state), [sessionId, state]);
  return { ...state.value, older };
}

/** Words come many times a second: the log is asked for at a calm pace, and the first time at once. */
async function follow(scope: Scope, state: Signal<FollowedLog>, gone: AbortSignal): Promise<void> {
  const lastSeq = session.value?.lastSeq.value ?? 0;
  const begin = Math.max(0, scope.runId ? scope.firstSeq - 1 : lastSeq - PAGE);
  state.value = { ...NOTHING, after: begin, before: scope.runId ? 0 : begin };
  while (!gone.aborted) {
    const result = await logPage(scope.sessionId, state.value.after, PAGE);
    if (gone.aborted) return;
    if (!result.ok) {
      state.value = { ...state.value, busy: false, trouble: result.trouble.message };
      await pause(AFTER_TROUBLE_MS);
      continue;
    }
    const read = loggedPage(result.value);
    const after = read.at(-1)?.record.seq ?? state.value.after;
    const more = scope.runId ? read.filter(({ record }) => isOf(record, scope.runId)) : read;
    const log = [...state.value.log, ...more].slice(-KEPT_MAX);
    state.value = { ...state.value, log, after, busy: false, trouble: "" };
    const last = log.at(-1)?.record;
    if (scope.runId && last?.type === "run.ended") return;
    if (after < result.value.last_seq) continue;
    await grown(after, gone);
    await pause(PAUSE_MS);
  }
}

function isOf(record: object, runId: string): boolean {
  return "run_id" in record && record.run_id === runId;
}

async function readOlder(sessionId: string, state: Signal<FollowedLog>): Promise<void> {
  const { before } = state.value;
  const begin = Math.max(0, before - PAGE);
  const result = await logPage(sessionId, begin, before - begin);
  if (state.value.before !== before) return;
  if (!result.ok) {
    state.value = { ...state.value, trouble: result.trouble.message };
    return;
  }
  // Where old deltas were joined there are fewer records than seqs, and the page reaches into what is here.
  const older = loggedPage(result.value).filter(({ record }) => record.seq <= before);
  state.value = { ...state.value, log: [...older, ...state.value.log], before: begin, trouble: "" };
}

function pause(lengthMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, lengthMs));
}

/** Until the session's log is past the seq, or nobody wants to know any more. */
async function grown(seq: number, gone: AbortSignal): Promise<void> {
  let stop: (() => void) | undefined;
  await new Promise<void>((resolve) => {
    gone.addEventListener("abort", () => resolve(), { once: true });
    stop = effect(() => {
      if ((session.value?.lastSeq.value ?? 0) > seq) resolve();
    });
  });
  stop?.();
}
