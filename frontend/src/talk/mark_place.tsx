/** The place of remarks on runs that nobody carries on: it fetches them when one is needed, or may be. */
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { connection, heard, live, type OpenSession, runNowMs } from "../state.ts";
import { CERTAIN, stateOf } from "../view/activity.ts";
import { shownRun } from "./live_line.tsx";
import type * as Marks from "./marks.tsx";

/** A server that works on a run says something sooner than this. */
const QUIET_MS = 8000;
const marks = signal<typeof Marks | null>(null);

export function MarkPlace({ here }: { readonly here: OpenSession }): JSX.Element | null {
  const isQuiet = useQuiet(here);
  const isNeeded = isQuiet || Object.keys(here.marks.value).length > 0;
  useEffect(() => {
    // one that could not be fetched is asked for again
    if (isNeeded && marks.value === null)
      import("./marks.tsx").then(
        (found) => {
          marks.value = found;
        },
        () => {},
      );
  }, [isNeeded, connection.value]);
  return isNeeded && marks.value !== null ? <marks.value.Marks here={here} /> : null;
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
