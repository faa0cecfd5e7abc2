/** Maths on the page: its source at once, and in its place the formula as soon as KaTeX is here. */
import { addStyles } from "../chunks.ts";
import { MATHS_CHARS_MAX, type Maths } from "../markdown/maths.ts";
import type * as Layout from "./maths_layout.ts";

let layout: typeof Layout | null = null;
let fetching: Promise<typeof Layout> | null = null;

function fetchLayout(): Promise<typeof Layout> {
  fetching ??= Promise.all([import("./maths_layout.ts"), addStyles(STYLES.maths)]).then(([found]) => {
    layout = found;
    return found;
  });
  return fetching;
}

/** An element that shows the maths; what can't be laid out stays its source. */
export function mathsElement(maths: Maths): HTMLElement {
  const host = document.createElement("span");
  host.className = maths.display ? "maths display" : "maths";
  host.textContent = maths.source;
  if (maths.text.length > MATHS_CHARS_MAX) return host;
  if (layout !== null) show(layout, host, maths);
  else
    fetchLayout().then(
      (found) => show(found, host, maths),
      () => {
        // the next formula asks again
        fetching = null;
      },
    );
  return host;
}

function show({ laidOut }: typeof Layout, host: HTMLElement, { text, source, display }: Maths): void {
  let formula: HTMLElement;
  try {
    formula = laidOut(text, display);
  } catch {
    // no formula that KaTeX understands: the source says what was meant
    return;
  }
  // what is copied is the source: the formula itself can't be selected
  const copied = document.createElement("span");
  copied.className = "unseen";
  copied.ariaHidden = "true";
  copied.textContent = source;
  host.replaceChildren(copied, formula);
  host.classList.add("laid-out");
}
