/** Colours for code come in a chunk of their own, with the first code that is shown. */

import { signal } from "@preact/signals";
import type * as Highlight from "./highlight.ts";

/** What makes the colours; null until it's here. */
export const shading = signal<typeof Highlight | null>(null);

/** Fetches it, if it isn't here yet; if that fails, code stays plain until more code asks again. */
export function fetchShading(): void {
  if (shading.value !== null) return;
  import("./highlight.ts").then(
    (found) => {
      shading.value = found;
    },
    () => undefined,
  );
}
