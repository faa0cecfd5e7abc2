/** The place of the files panel, which is a chunk of its own: it is fetched when it is first opened. */
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { FilesPanel } from "../files/panel.tsx";
import { closeFiles } from "./ui.ts";

const panel = signal<typeof FilesPanel | null>(null);

export function FilesPlace(): JSX.Element {
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    if (panel.value !== null) return;
    import("../files/panel.tsx").then(
      (found) => {
        panel.value = found.FilesPanel;
      },
      () => setFailed(true),
    );
  }, []);
  const Found = panel.value;
  if (Found !== null) return <Found />;
  return (
    <aside class="panel files" aria-label="Files">
      {failed ? (
        <p class="panel-note problem" role="alert">
          Couldn't load this part of the page. Check your connection to the server.
          <button type="button" class="button small" onClick={closeFiles}>
            Close
          </button>
        </p>
      ) : null}
    </aside>
  );
}
