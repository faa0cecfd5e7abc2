/** The field in which a chat's title is written: Enter keeps it, Escape does not. */
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { isComposing } from "../keys.ts";
import { rename, type SessionShown } from "../state.ts";
import { linkOf } from "./address.ts";
import { type Renaming, renaming } from "./ui.ts";

interface RenameProps {
  readonly row: SessionShown;
  readonly onTrouble: (words: string) => void;
}

export function Rename({ row, onTrouble }: RenameProps): JSX.Element {
  const done = useRef(false);
  const stood = useRef<string | null>(null);
  const finish = async (title: string, afterwards: (work: () => void) => void): Promise<void> => {
    // Enter takes the field away, and a field that goes away loses the focus: that is one renaming, not two.
    if (done.current) return;
    done.current = true;
    const place = renaming.value?.place;
    renaming.value = null;
    afterwards(() => focusOf(place, row.id)?.focus());
    const wanted = title.trim();
    if (!wanted || wanted === stood.current) return;
    const result = await rename(row.id, wanted);
    onTrouble(result.ok ? "" : result.trouble.message);
  };
  return (
    <input
      class="field row-rename"
      aria-label="Chat title"
      defaultValue={row.title || row.preview}
      maxLength={200}
      ref={(field) => {
        // As the field shows it, on one line, and not as an answer changes it meanwhile.
        if (field) stood.current ??= field.value.trim();
        if (field && document.activeElement !== field) field.select();
      }}
      onKeyDown={(event) => {
        event.stopPropagation();
        if (isComposing(event)) return;
        // the next key is for what was there before
        if (event.key === "Enter") void finish(event.currentTarget.value, queueMicrotask);
        if (event.key === "Escape") void finish("", queueMicrotask);
      }}
      // who clicks on something else is not there yet
      onBlur={(event) => void finish(event.currentTarget.value, requestAnimationFrame)}
    />
  );
}

/** What had the focus before the field took its place; nothing if someone has gone on to something else. */
function focusOf(place: Renaming["place"] | undefined, id: string): HTMLElement | null {
  if (document.activeElement !== document.body) return null;
  return place === "head" ? document.querySelector<HTMLElement>(".title-button") : linkOf(id);
}
