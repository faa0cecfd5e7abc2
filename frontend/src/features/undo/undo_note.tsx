/** Shows the newest undo above the composer, with a button to redo it. */
import type { JSX } from "preact";
import { call, runPath } from "../../api.ts";
import type { UndoShown } from "../../bodies.ts";
import { plural } from "../../format.ts";
import { changesOf } from "../../frame/ui.ts";
import { Icon } from "../../icons.tsx";
import { has } from "../../state.ts";
import { useActing } from "../../talk/acting.ts";
import { Problem } from "../../talk/problem.tsx";

export function UndoNote({ undo }: { readonly undo: UndoShown }): JSX.Element | null {
  const { undo_id, run_id, turns, files } = undo;
  const acting = useActing();
  if (!has("undo")) return null;
  return (
    <div class="undo-note" role="group" aria-label="Undone">
      <p>
        Undone: {plural(turns, "run")} and {plural(files, "file")}.{" "}
        <span class="muted">After your next message, redo restores only files.</span>
      </p>
      <button
        type="button"
        class="button small"
        disabled={acting.busy}
        onClick={() => acting.act(() => call("POST", runPath(run_id, "/redo"), { body: { undo_id } }))}
      >
        <Icon name="retry" />
        Redo
      </button>
      {acting.trouble === "" ? null : (
        <>
          <Problem words={acting.trouble.replace(/\. Use force .*$/s, ".")} />
          <button
            type="button"
            class="button small"
            onClick={() => {
              changesOf.value = run_id;
            }}
          >
            Show changes
          </button>
        </>
      )}
    </div>
  );
}
