/** The workspace beside the chat: its files, one of them opened, and what runs changed in it. */
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
// With all that the panels need, this needs the same parts of the page: those stay one chunk, which compresses better.
import "../frame/panels.tsx";
import { changesOf, closeFiles, FILES_SWITCH, filesOpen } from "../frame/ui.ts";
import { Icon } from "../icons.tsx";
import { session } from "../state.ts";
import { ChangesTab } from "./changes.tsx";
import { Preview } from "./preview.tsx";
import { Tree } from "./tree.tsx";

/** The file that is shown in place of the tree, in its session. */
export const opened = signal({ sessionId: "", path: "" });

const TABS = [
  { name: "files", words: "Files" },
  { name: "changes", words: "Changes" },
] as const;
type TabName = (typeof TABS)[number]["name"];

/** Puts the panel away, and the focus back on its switch. */
function close(): void {
  closeFiles();
  document.getElementById(FILES_SWITCH)?.focus();
}

function newestChanged(): string {
  const runs = [...(session.value?.runs.value.values() ?? [])];
  return (runs.findLast((run) => (run.files_changed ?? 0) > 0) ?? runs.at(-1))?.run_id ?? "";
}

function show(tab: TabName): void {
  filesOpen.value = true;
  changesOf.value = tab === "changes" ? newestChanged() : "";
}

export function FilesPanel(): JSX.Element | null {
  const here = session.value;
  const away = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => away.current?.focus(), []);
  if (here === null) return null;
  // a run of another chat is none of this one's
  const runId = here.runs.value.has(changesOf.value) ? changesOf.value : "";
  const tab: TabName = changesOf.value === "" ? "files" : "changes";
  const file = opened.value.sessionId === here.id ? opened.value.path : "";
  const back = (): void => {
    opened.value = { sessionId: "", path: "" };
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    event.preventDefault();
    if (tab === "files" && file !== "") back();
    else close();
  };
  return (
    <aside id="files" class="panel files" tabIndex={-1} aria-label="Files" onKeyDown={onKeyDown}>
      <header class="panel-head">
        <div class="files-tabs" role="tablist" aria-label="Files and changes">
          {TABS.map(({ name, words }) => (
            <button
              key={name}
              type="button"
              role="tab"
              id={`files-tab-${name}`}
              class="files-tab"
              aria-selected={tab === name}
              aria-controls="files-body"
              tabIndex={tab === name ? 0 : -1}
              onClick={() => show(name)}
              onKeyDown={onTabKey}
            >
              {words}
            </button>
          ))}
        </div>
        <span class="spread" />
        <button ref={away} type="button" class="icon-button" aria-label="Close files" onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      <div id="files-body" class="files-body" role="tabpanel" aria-labelledby={`files-tab-${tab}`}>
        {tab === "changes" ? (
          <ChangesTab runId={runId || newestChanged()} />
        ) : file === "" ? (
          <Tree
            key={here.id}
            sessionId={here.id}
            onOpen={(path) => {
              opened.value = { sessionId: here.id, path };
            }}
          />
        ) : (
          <Preview key={`${here.id} ${file}`} sessionId={here.id} path={file} onBack={back} />
        )}
      </div>
    </aside>
  );
}

/** The arrow keys go from one tab to the other. */
function onTabKey(event: KeyboardEvent): void {
  if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
  event.preventDefault();
  const other = changesOf.value === "" ? "changes" : "files";
  show(other);
  document.getElementById(`files-tab-${other}`)?.focus();
}
