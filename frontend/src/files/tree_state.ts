/** The tree of the workspace as far as it was opened, and the rows that show it; pure. */
import type { FolderEntry, FolderListing } from "../bodies.ts";

export interface FolderState {
  readonly entries: readonly FolderEntry[];
  readonly total: number;
  readonly cursor: string;
  readonly trouble: string;
  readonly isLoading: boolean;
}

/** By path; the workspace itself is "". A folder that is missing here was never opened. */
export type Folders = ReadonlyMap<string, FolderState>;

export const UNREAD: FolderState = { entries: [], total: 0, cursor: "", trouble: "", isLoading: true };

export type Row =
  | {
      readonly kind: "entry";
      readonly path: string;
      readonly entry: FolderEntry;
      readonly level: number;
      readonly place: number;
      readonly size: number;
      readonly isOpen: boolean;
    }
  | { readonly kind: "more"; readonly path: string; readonly level: number; readonly left: number }
  | { readonly kind: "note"; readonly path: string; readonly level: number; readonly words: string };

export function joined(folder: string, name: string): string {
  return folder === "" ? name : `${folder}/${name}`;
}

export function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf("/")));
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** A folder with one more page; the first page replaces whatever was known. */
export function withPage(state: FolderState, page: FolderListing, isFirst: boolean): FolderState {
  return {
    entries: isFirst ? page.entries : [...state.entries, ...page.entries],
    total: page.entries_total,
    cursor: page.next_cursor ?? "",
    trouble: "",
    isLoading: false,
  };
}

/** The rows of all open folders, from top to bottom. */
export function rowsOf(folders: Folders, open: ReadonlySet<string>, path = "", level = 1): Row[] {
  const state = folders.get(path);
  if (state === undefined) return [];
  const rows = state.entries.flatMap((entry, at): Row[] => {
    const inside = joined(path, entry.name);
    const isOpen = entry.kind === "folder" && open.has(inside);
    const row: Row = {
      kind: "entry",
      path: inside,
      entry,
      level,
      place: at + 1,
      size: state.total,
      isOpen,
    };
    return isOpen ? [row, ...rowsOf(folders, open, inside, level + 1)] : [row];
  });
  if (state.trouble !== "") rows.push({ kind: "note", path, level, words: state.trouble });
  else if (state.cursor !== "")
    rows.push({ kind: "more", path, level, left: state.total - state.entries.length });
  else if (state.entries.length === 0)
    rows.push({ kind: "note", path, level, words: state.isLoading ? "Loading" : "This folder is empty." });
  return rows;
}

/** What identifies a row: an entry by its path, what else there is by the folder that it is about. */
export function keyOf(row: Row): string {
  return row.kind === "entry" ? row.path : `${row.path}/\0${row.kind}`;
}

/** A path as a message names it. */
export function mention(path: string): string {
  return /^[\p{L}\p{N}._/@+-]+$/u.test(path) ? `@${path}` : `@"${path.replace(/["\\]/g, "\\$&")}"`;
}
