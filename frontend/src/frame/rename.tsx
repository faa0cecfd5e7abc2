/** The field in which a chat's title is written: Enter keeps it, Escape does not. */
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
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
  const field = useRef<HTMLInputElement | null>(null);
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
  // A row that moves to another group meanwhile is drawn anew: that's not the end of the renaming.
  useLayoutEffect(
    () => () => {
      if (done.current || renaming.value === null || field.current === null) return;
      done.current = true;
      renaming.value = { ...renaming.value, typed: field.current.value };
    },
    [],
  );
  return (
    <input
      class="field row-rename"
      aria-label="Chat title"
      defaultValue={renaming.value?.typed ?? (row.title || row.preview)}
      maxLength={200}
      ref={(shown) => {
        field.current = shown;
        // As the field shows it, on one line, and not as an answer changes it meanwhile.
        if (shown) stood.current ??= renaming.value?.typed === undefined ? shown.value.trim() : "";
        if (!shown || document.activeElement === shown) return;
        shown.select();
        if (renaming.value?.typed !== undefined) shown.selectionStart = shown.value.length;
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
