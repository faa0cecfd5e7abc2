/** The lines under runs that no server carries on and that have no ending to say so. */
// Needs what those cards need: otherwise the build cuts the first load into more pieces, which compress worse.
import "./asks.tsx";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Icon } from "../icons.tsx";
import { move, readMarks } from "../state/marks.ts";
import type { OpenSession } from "../state.ts";
import { useActing } from "./acting.ts";
import { Problem } from "./problem.tsx";

const EVERY_MS = 5000;

export function Marks({ here }: { readonly here: OpenSession }): JSX.Element {
  useMarks(here);
  const runs = here.runs.value;
  const open = Object.entries(here.marks.value).filter(([runId]) => runs.get(runId)?.ending == null);
  return (
    <>
      {open.map(([runId, words]) => (
        <div key={runId} class="verdict warn" role="group" aria-label="Run status">
          <Icon name="bolt" />
          <p class="verdict-words">
            <strong>{words}</strong>
          </p>
          {here.isAway.value ? <Move here={here} /> : null}
        </div>
      ))}
    </>
  );
}

/** Keeps the marks true while they are shown, or while nothing is heard of a run; one request at a time. */
function useMarks(here: OpenSession): void {
  useEffect(() => {
    let isBusy = false;
    const look = async (): Promise<void> => {
      if (isBusy || document.hidden) return;
      isBusy = true;
      await readMarks(here);
      isBusy = false;
    };
    if (Object.keys(here.marks.peek()).length === 0) void look();
    const timer = setInterval(() => void look(), EVERY_MS);
    return () => clearInterval(timer);
  }, [here]);
}

function Move({ here }: { readonly here: OpenSession }): JSX.Element {
  const acting = useActing();
  return (
    <>
      <button
        type="button"
        class="button small"
        disabled={acting.busy}
        onClick={() => acting.act(() => move(here))}
      >
        <Icon name="swap" />
        Move to another server
      </button>
      <Problem words={acting.trouble} />
    </>
  );
}
