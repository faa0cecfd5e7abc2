/** The workspace as a tree: folders are read when they are opened, and files dropped on one are uploaded there. */
import { signal } from "@preact/signals";
import type { HTMLAttributes, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { bytes, grouped } from "../format.ts";
import { PickFiles } from "../frame/pick_files.tsx";
import { Icon } from "../icons.tsx";
import { exact } from "../markdown/safe.ts";
import { newOrder, type Order } from "../state/order.ts";
import { may } from "../state.ts";
import { listFolder } from "./content.ts";
import { type Folders, keyOf, mention, parentOf, type Row, rowsOf, UNREAD, withPage } from "./tree_state.ts";
import { Uploads, useUploads } from "./uploads.tsx";

/** What was opened in each session, so that the tree is as it was when the panel comes back. */
const openFolders = signal<Readonly<Record<string, ReadonlySet<string>>>>({});
const NONE: ReadonlySet<string> = new Set();

interface TreeProps {
  readonly sessionId: string;
  readonly onOpen: (path: string) => void;
}

export function Tree({ sessionId, onOpen }: TreeProps): JSX.Element {
  const open = openFolders.value[sessionId] ?? NONE;
  const { folders, load } = useFolders(sessionId);
  const [current, setCurrent] = useState("");
  const [target, setTarget] = useState<string | null>(null);
  const list = useRef<HTMLDivElement>(null);
  const rows = useMemo(() => rowsOf(folders, open), [folders, open]);
  const uploads = useUploads(sessionId, (folder) => load(folder));
  const row = rows.find((one) => keyOf(one) === current);
  const folder = row === undefined ? "" : folderOf(row);
  // Tab has to reach a row, but until one is chosen, uploads go to the workspace itself.
  const chosen = row === undefined && rows[0] ? keyOf(rows[0]) : current;

  useEffect(() => {
    for (const path of ["", ...open]) load(path);
  }, []);

  const focusRow = (key: string): void => {
    setCurrent(key);
    const at = rows.findIndex((one) => keyOf(one) === key);
    list.current?.querySelector<HTMLElement>(`[data-row="${at}"]`)?.focus();
  };
  const toggle = (path: string): void => {
    const next = new Set(open);
    if (!next.delete(path)) {
      next.add(path);
      load(path);
    }
    openFolders.value = { ...openFolders.value, [sessionId]: next };
  };
  const act = (one: Row): void => {
    setCurrent(keyOf(one));
    if (one.kind === "more") load(one.path, folders.get(one.path)?.cursor);
    if (one.kind !== "entry" || one.entry.refused) return;
    if (one.entry.kind === "folder") toggle(one.path);
    else onOpen(one.path);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const moved = moveOf(event.key, rows, chosen);
    if (moved === null) return;
    event.preventDefault();
    if (moved.act !== undefined) act(moved.act);
    else if (moved.toggle !== undefined) toggle(moved.toggle);
    else if (moved.focus !== undefined) focusRow(moved.focus);
  };
  const dropOn = (path: string | null) => ({
    onDragOver: (event: DragEvent): void => {
      if (path === null || ![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
      event.preventDefault();
      event.stopPropagation();
      if (target !== path) setTarget(path);
    },
    onDrop: (event: DragEvent): void => {
      if (path === null || target === null) return;
      event.preventDefault();
      event.stopPropagation();
      setTarget(null);
      uploads.add(path, [...(event.dataTransfer?.files ?? [])]);
    },
  });
  const canUpload = may("approve");
  return (
    <>
      <div class="files-tools">
        <span class="files-where">{folder === "" ? "Workspace" : exact(folder)}</span>
        <span class="spread" />
        {canUpload ? (
          <PickFiles
            label={`Upload files to ${folder === "" ? "the workspace" : exact(folder)}`}
            purpose="Files to upload"
            icon="plus"
            isSmall
            onPick={(files) => uploads.add(folder, files)}
          />
        ) : null}
        <button
          type="button"
          class="icon-button small"
          aria-label="Refresh files"
          title="Refresh files"
          onClick={() => {
            for (const path of ["", ...open]) load(path);
          }}
        >
          <Icon name="retry" />
        </button>
      </div>
      <Uploads uploads={uploads} />
      <div
        ref={list}
        class={target === "" ? "files-tree target" : "files-tree"}
        role="tree"
        aria-label="Workspace files"
        onKeyDown={onKeyDown}
        onDragLeave={(event) => {
          if (!list.current?.contains(event.relatedTarget as Node | null)) setTarget(null);
        }}
        {...dropOn(canUpload ? "" : null)}
      >
        {rows.map((one, at) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the tree hears the keys of all its rows
          <div
            key={keyOf(one)}
            data-row={at}
            role="treeitem"
            class={rowClass(one, target)}
            aria-level={one.level}
            aria-selected={keyOf(one) === chosen}
            tabIndex={keyOf(one) === chosen ? 0 : -1}
            style={{ "--level": one.level - 1 }}
            onClick={() => act(one)}
            onFocus={() => setCurrent(keyOf(one))}
            {...aboutRow(one)}
            {...dropOn(canUpload ? folderOf(one) : null)}
          >
            <RowView row={one} />
          </div>
        ))}
      </div>
    </>
  );
}

function useFolders(sessionId: string): { folders: Folders; load: (path: string, cursor?: string) => void } {
  const [folders, setFolders] = useState<Folders>(new Map());
  const orders = useRef(new Map<string, Order>());
  const load = (path: string, cursor = ""): void => {
    const inOrder = orders.current.get(path) ?? newOrder();
    orders.current.set(path, inOrder);
    const isNews = inOrder();
    const put = (change: (known: Folders) => Folders): void => setFolders(change);
    put((known) =>
      new Map(known).set(path, { ...(known.get(path) ?? UNREAD), isLoading: true, trouble: "" }),
    );
    listFolder(sessionId, path, cursor).then((result) => {
      // two files that are uploaded one after the other have the folder read twice
      if (!isNews()) return;
      put((known) => {
        const was = known.get(path) ?? UNREAD;
        const now = result.ok
          ? withPage(was, result.value, cursor === "")
          : { ...was, trouble: result.trouble.message, isLoading: false };
        return new Map(known).set(path, now);
      });
    });
  };
  return { folders, load };
}

/** The folder that a row belongs to: where a file that is dropped on it goes. */
function folderOf(row: Row): string {
  if (row.kind !== "entry") return row.path;
  return row.entry.kind === "folder" && !row.entry.refused ? row.path : parentOf(row.path);
}

interface Move {
  readonly act?: Row;
  readonly toggle?: string;
  readonly focus?: string;
}

/** What a key does, as in every tree: null if it does nothing here. */
function moveOf(key: string, rows: readonly Row[], chosen: string): Move | null {
  const at = rows.findIndex((row) => keyOf(row) === chosen);
  const row = rows[at];
  if (row === undefined) return null;
  const to = (nth: number): Move => {
    const found = rows[Math.min(rows.length - 1, Math.max(0, nth))];
    return found === undefined ? {} : { focus: keyOf(found) };
  };
  const isFolder = row.kind === "entry" && row.entry.kind === "folder" && !row.entry.refused;
  const isOpen = row.kind === "entry" && row.isOpen;
  switch (key) {
    case "ArrowDown":
      return to(at + 1);
    case "ArrowUp":
      return to(at - 1);
    case "Home":
      return to(0);
    case "End":
      return to(rows.length - 1);
    case "ArrowRight":
      if (!isFolder) return {};
      return isOpen ? to(at + 1) : { toggle: row.path };
    case "ArrowLeft":
      if (isOpen) return { toggle: row.path };
      return row.level === 1 ? {} : to(rows.findLastIndex((one, nth) => nth < at && one.level < row.level));
    case "Enter":
    case " ":
      return { act: row };
    default:
      return null;
  }
}

function rowClass(row: Row, target: string | null): string {
  const parts = ["files-row"];
  if (row.kind === "entry" && row.entry.ignored) parts.push("ignored");
  if (row.kind === "entry" && row.entry.refused) parts.push("refused");
  if (row.kind === "note") parts.push("note");
  if (target !== null && row.kind === "entry" && row.entry.kind === "folder" && row.path === target)
    parts.push("target");
  return parts.join(" ");
}

/** What a screen reader and a mouse need to know of a row. */
function aboutRow(row: Row): HTMLAttributes<HTMLDivElement> {
  if (row.kind !== "entry") return {};
  const { entry, path } = row;
  const isFolder = entry.kind === "folder" && !entry.refused;
  const about: HTMLAttributes<HTMLDivElement> = {
    "aria-setsize": row.size,
    "aria-posinset": row.place,
    title: entry.refused ? `${exact(path)}: ${entry.refused}` : exact(path),
  };
  if (isFolder) about["aria-expanded"] = row.isOpen;
  if (entry.refused) return { ...about, "aria-disabled": true };
  return {
    ...about,
    draggable: true,
    onDragStart: (event: DragEvent) => {
      event.dataTransfer?.setData("text/plain", `${mention(path)} `);
    },
  };
}

/** What a mouse user sees by its look. */
function wordsFor({ entry }: Extract<Row, { kind: "entry" }>): string {
  const parts = [entry.kind === "folder" ? "folder" : "", entry.link ? "link" : ""];
  parts.push(entry.ignored ? "ignored" : "", entry.refused ?? "");
  return parts.filter((part) => part !== "").join(", ");
}

function RowView({ row }: { readonly row: Row }): JSX.Element {
  if (row.kind === "note") return <span class="files-name">{row.words}</span>;
  if (row.kind === "more") return <span class="files-name more">Show more ({grouped(row.left)} left)</span>;
  const { entry } = row;
  const isFolder = entry.kind === "folder";
  return (
    <>
      <span class={row.isOpen ? "files-chevron open" : "files-chevron"}>
        {isFolder && !entry.refused ? <Icon name="chevron" /> : null}
      </span>
      <Icon name={isFolder ? "folder" : "file"} />
      <span class="files-name">{exact(entry.name)}</span>
      {entry.kind === "file" && !entry.refused ? (
        <span class="files-size">{bytes(entry.bytes ?? 0)}</span>
      ) : null}
      <span class="unseen">{wordsFor(row)}</span>
    </>
  );
}
