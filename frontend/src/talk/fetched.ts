/** The parts of a chat that are fetched when the first of them is needed. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { addStyles } from "../chunks.ts";
import { connection } from "../state.ts";
import type * as Parts from "./parts_later.tsx";

const parts = signal<typeof Parts | null>(null);

/** Whether they could not be fetched: the server is out of reach, or was updated since this page was loaded. */
export const notFetched = signal(false);

/** The parts once they are there, if they are needed; what could not be fetched is asked for again. */
export function useParts(isNeeded: boolean): typeof Parts | null {
  useEffect(() => {
    if (!isNeeded || parts.value !== null) return;
    Promise.all([import("./parts_later.tsx"), addStyles(STYLES.parts)]).then(
      ([found]) => {
        parts.value = found;
        notFetched.value = false;
      },
      () => {
        notFetched.value = true;
      },
    );
  }, [isNeeded, connection.value]);
  return isNeeded ? parts.value : null;
}
