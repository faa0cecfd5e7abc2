/** A long text that was just pasted: the offer to attach it as a file instead. */
import type { JSX } from "preact";
import { bytes } from "../format.ts";
import { saveDraft } from "../state.ts";
import { attach } from "./attachments.ts";
import { focusComposer } from "./focus.ts";

/** A longer text is easier for the agent to search as a file. */
export const PASTED_CHARS_MAX = 8000;

interface Props {
  /** As it is in the draft, "" if nothing long was pasted. */
  readonly pasted: string;
  readonly draft: string;
}

export function PasteOffer({ pasted, draft }: Props): JSX.Element | null {
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
          attach([file()]);
          saveDraft(draft.replace(pasted, () => ""));
          focusComposer();
        }}
      >
        Attach it as a file
      </button>
    </p>
  );
}
