/** A note about changes to git's history, which an undo doesn't reverse. */
import type { JSX } from "preact";
import type { GitMoved } from "../../bodies.ts";
import { exact } from "../../markdown/safe.ts";

export function GitNote({ git }: { readonly git: GitMoved | null | undefined }): JSX.Element | null {
  return git == null ? null : (
    <p class="changes-git">
      The run also changed git's history, which an undo doesn't reverse. To revert it, run{" "}
      <code>{exact(git.way_back)}</code> in the workspace.
    </p>
  );
}
