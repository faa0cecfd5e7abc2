/** Where the focus goes when what had it is gone: to the composer, so that a keyboard never loses its place. */
import { useLayoutEffect } from "preact/hooks";

export function focusComposer(): void {
  // on a phone this would open the keyboard over what there is to read
  if (!matchMedia("(pointer: coarse)").matches) document.getElementById("composer")?.focus();
}

// in the inbox, the first button of the oldest item
const NEXT = ["dialog[open] .inbox-item button", "dialog[open] button", ".ask"];

/** To the next thing that waits for a person, if there is one, so that a keyboard can answer one after the other. */
function focusNext(): void {
  const next = NEXT.map((one) => document.querySelector<HTMLElement>(one)).find((one) => one !== null);
  if (next) next.focus();
  else focusComposer();
}

/** When the element goes and the focus was last inside it, what comes next has it. */
export function useFocusBack(element: { readonly current: HTMLElement | null }): void {
  useLayoutEffect(() => {
    const here = element.current;
    // a button that is disabled while it works loses the focus to nobody
    let isInside = false;
    const look = (event: FocusEvent): void => {
      isInside = event.target instanceof Node && here !== null && here.contains(event.target);
    };
    document.addEventListener("focusin", look);
    return () => {
      document.removeEventListener("focusin", look);
      // what is drawn in its place may have taken the focus by itself
      if (isInside) queueMicrotask(() => document.activeElement === document.body && focusNext());
    };
  }, []);
}
