/** The workspace beside the chat: its files, one of them opened, what runs changed in it, and what they left running. */
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
// With all that the panels need, this needs the same parts of the page: those stay one chunk, which compresses better.
import "../frame/panels.tsx";
import { ChangesTab } from "../features/undo/changes.tsx";
import { changesOf, closeFiles, FILES_SWITCH, filesOpen } from "../frame/ui.ts";
import { Icon } from "../icons.tsx";
import { has, type OpenSession, session } from "../state.ts";
import { Preview } from "./preview.tsx";
import { ProcessesTab } from "./processes.tsx";
import { Tree } from "./tree.tsx";

/** The file that is shown in place of the tree, in its session. */
export const opened = signal({ sessionId: "", path: "" });

const TABS = [
  { name: "files", words: "Files" },
  { name: "changes", words: "Changes" },
  { name: "processes", words: "Processes" },
] as const;
type TabName = (typeof TABS)[number]["name"];

/** The tabs that the server has something for. */
function tabs(): readonly (typeof TABS)[number][] {
  const absent = { files: !has("files"), changes: !has("undo"), processes: false };
  return TABS.filter(({ name }) => !absent[name]);
}

/** Whether the processes are shown in place of the files. */
const processesOpen = signal(false);

function tabShown(): TabName {
  if (changesOf.value !== "") return "changes";
  return processesOpen.value || !has("files") ? "processes" : "files";
}

/** Puts the panel away, and the focus back on its switch. */
function close(): void {
  closeFiles();
  document.getElementById(FILES_SWITCH)?.focus();
}

/** Whether the run is part of the conversation: an undo removes it. */
function isInChat(here: OpenSession, runId: string): boolean {
  return here.entries.value.some((entry) => entry.run_id === runId);
}

function isRunOf(here: OpenSession, runId: string): boolean {
  return isInChat(here, runId) || here.undos.value.some((undo) => undo.run_id === runId);
}

function newestChanged(): string {
  const here = session.value;
  if (here === null) return "";
  const runs = [...here.runs.value.values()].filter((run) => isInChat(here, run.run_id));
  const undone = here.undos.value.at(-1)?.run_id ?? "";
  return (
    (runs.findLast((run) => (run.files_changed ?? 0) > 0)?.run_id ?? undone) || (runs.at(-1)?.run_id ?? "")
  );
}

function show(tab: TabName): void {
  filesOpen.value = true;
  processesOpen.value = tab === "processes";
  changesOf.value = tab === "changes" ? newestChanged() : "";
}

export function FilesPanel(): JSX.Element | null {
  const here = session.value;
  const away = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => away.current?.focus(), []);
  if (here === null) return null;
  // a run of another chat is none of this one's
  const runId = isRunOf(here, changesOf.value) ? changesOf.value : "";
  const tab = tabShown();
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
        <div class="files-tabs" role="tablist" aria-label="Files, changes and processes">
          {tabs().map(({ name, words }) => (
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
        ) : tab === "processes" ? (
          <ProcessesTab key={here.id} sessionId={here.id} />
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

/** The arrow keys go from one tab to the next. */
function onTabKey(event: KeyboardEvent): void {
  if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
  event.preventDefault();
  const step = event.key === "ArrowRight" ? 1 : -1;
  const shown = tabs();
  const at = shown.findIndex(({ name }) => name === tabShown()) + step;
  const { name } = shown[(at + shown.length) % shown.length] ?? TABS[0];
  show(name);
  document.getElementById(`files-tab-${name}`)?.focus();
}
