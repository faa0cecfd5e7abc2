/** The place of the newest undo, as long as a redo brings all of it back. */
import type { JSX } from "preact";
import type { OpenSession } from "../../state.ts";
import { useParts } from "../../talk/fetched.ts";

export function UndoPlace({ here }: { readonly here: OpenSession }): JSX.Element | null {
  const undo = here.undos.value.findLast((one) => one.returns_chat);
  const parts = useParts(!!undo);
  return parts && undo ? <parts.UndoNote undo={undo} /> : null;
}
