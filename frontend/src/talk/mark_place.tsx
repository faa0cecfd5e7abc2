/** The place of remarks on runs that nobody carries on. */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { connection, heard, live, type OpenSession, runNowMs } from "../state.ts";
import { CERTAIN, stateOf } from "../view/activity.ts";
import { useParts } from "./fetched.ts";
import { shownRun } from "./live_line.tsx";

/** A server that works on a run says something sooner than this. */
const QUIET_MS = 8000;

export function MarkPlace({ here }: { readonly here: OpenSession }): JSX.Element | null {
  const isQuiet = useQuiet(here);
  const parts = useParts(isQuiet || Object.keys(here.marks.value).length > 0);
  return parts && <parts.Marks here={here} />;
}

/** Whether a run is under way, but nothing is heard of it. */
function useQuiet(here: OpenSession): boolean {
  const openedMs = useMemo(() => Date.now(), [here]);
  const run = shownRun(here);
  if (run === undefined || connection.value !== "live" || live.value?.run_id === run.run_id) return false;
  const { session_id, at_ms } = heard.peek();
  const sinceMs = Math.max(openedMs, session_id === here.id ? at_ms : 0);
  return !CERTAIN.has(stateOf(run.activity)[0]) && runNowMs.value - sinceMs >= QUIET_MS;
}
