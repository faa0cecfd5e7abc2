/** The place of a panel: it fetches the panels when the first of them is opened. */
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { addStyles } from "../chunks.ts";
import { Dialog } from "./dialog.tsx";
import type * as Panels from "./panels.tsx";

const panels = signal<typeof Panels | null>(null);

interface PanelProps {
  readonly name: keyof typeof Panels;
  readonly onClose: () => void;
}

export function Panel({ name, onClose }: PanelProps): JSX.Element | null {
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    if (panels.value !== null) return;
    Promise.all([import("./panels.tsx"), addStyles(STYLES.panels), addStyles(STYLES.parts)]).then(
      ([found]) => {
        panels.value = found;
      },
      () => setFailed(true),
    );
  }, []);
  if (failed && panels.value === null) return <NotFetched onClose={onClose} />;
  const Found = panels.value?.[name];
  return Found === undefined ? null : <Found />;
}

/** The server is out of reach, or has been updated since this page was loaded. */
export function NotFetched({ onClose }: { readonly onClose: () => void }): JSX.Element {
  return (
    <Dialog title="Couldn't load this part of the page" onClose={onClose}>
      <p>Check your connection to the server. If Holdfast was updated, reload the page.</p>
      <button type="button" class="button primary" onClick={() => location.reload()}>
        Reload
      </button>
    </Dialog>
  );
}
