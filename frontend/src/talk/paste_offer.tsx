/** A long text that was just pasted: the offer to attach it as a file instead. */
import type { JSX } from "preact";
import { bytes } from "../format.ts";
import { saveDraft } from "../state.ts";
import { focusComposer } from "./focus.ts";

interface Props {
  /** As it is in the draft, "" if nothing long was pasted. */
  readonly pasted: string;
  readonly draft: string;
  /** Given, since a script that this one imported beside the first load would be a piece of its own. */
  readonly onAttach: (files: readonly File[]) => void;
}

export function PasteOffer({ pasted, draft, onAttach }: Props): JSX.Element | null {
  // what the person has changed since stays as they wrote it
  if (pasted === "" || !draft.includes(pasted)) return null;
  const file = (): File => new File([pasted], "pasted.txt", { type: "text/plain" });
  return (
    <p class="paste-offer">
      <span class="muted">You pasted {bytes(file().size)} of text.</span>
      <button
        type="button"
        class="button small"
        onClick={() => {
          onAttach([file()]);
          saveDraft(draft.replace(pasted, () => ""));
          focusComposer();
        }}
      >
        Attach it as a file
      </button>
    </p>
  );
}
