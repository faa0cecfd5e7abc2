/** What a chat's menu offers. */
import { fetchFile } from "../state/asking.ts";
import {
  archive,
  compact,
  exportUrl,
  fork,
  may,
  pin,
  type Result,
  remove,
  type SessionShown,
  session,
  undelete,
} from "../state.ts";
import { show } from "./commands.ts";
import type { MenuItem } from "./menu.tsx";
import { drawerOpen, focusComposer, offerUndo, type Renaming, renaming } from "./ui.ts";

const FORMATS = [
  ["Markdown", "md"],
  ["HTML", "html"],
  ["JSON", "json"],
] as const;

type Tell = (words: string) => void;

export function itemsFor(row: SessionShown, place: Renaming["place"], tell: Tell): MenuItem[] {
  const { id, pinned, archived } = row;
  return [
    {
      icon: "pencil",
      words: "Rename",
      act: () => {
        renaming.value = { id, place };
      },
    },
    { icon: "pin", words: pinned ? "Unpin" : "Pin", act: () => void told(pin(id, !pinned), tell) },
    { icon: "fork", words: "Fork", act: () => void forked(id, tell) },
    { icon: "filter", words: "Compact", act: () => void told(compact(id), tell) },
    ...FORMATS.map(([name, format]) => ({
      icon: "download" as const,
      words: `Export as ${name}`,
      act: () => void fetchFile(exportUrl(id, format), ""),
    })),
    archived
      ? { icon: "unarchive", words: "Unarchive", act: () => void told(archive(id, false), tell) }
      : { icon: "archive", words: "Archive", act: () => void archivedAway(row, tell) },
    ...(may("admin")
      ? [{ icon: "trash", words: "Delete", danger: true, act: () => void deleted(row, tell) } as const]
      : []),
  ];
}

async function told<Value>(asked: Promise<Result<Value>>, tell: Tell): Promise<Result<Value>> {
  const result = await asked;
  tell(result.ok ? "" : result.trouble.message);
  return result;
}

async function forked(id: string, tell: Tell): Promise<void> {
  if ((await told(fork(undefined, id), tell)).ok) drawerOpen.value = false;
}

async function archivedAway(row: SessionShown, tell: Tell): Promise<void> {
  if ((await told(archive(row.id, true), tell)).ok) {
    offerUndo(`Archived “${short(row)}”.`, () => archive(row.id, false));
  }
}

async function deleted(row: SessionShown, tell: Tell): Promise<void> {
  const wasOpen = session.value?.id === row.id;
  if ((await told(remove(row.id), tell)).ok) {
    // its title had the focus; a row gives it to the next one
    queueMicrotask(() => document.activeElement === document.body && focusComposer());
    offerUndo(`Deleted “${short(row)}”.`, async () => {
      const result = await undelete(row.id);
      if (result.ok && wasOpen && session.value === null) show(row.id);
      return result;
    });
  }
}

function short(row: SessionShown): string {
  const title = row.title || row.preview || "New chat";
  return title.length > 40 ? `${title.slice(0, 39)}…` : title;
}
