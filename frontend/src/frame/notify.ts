/** Notifications of the browser and the badge in the tab's title: what needs a person, what is finished. */
import { effect, untracked } from "@preact/signals";
import { MOUNT } from "../mount.ts";
import {
  changeSettings,
  type SessionShown,
  session,
  sessions,
  sessionsLoaded,
  settings,
  waitingForYou,
} from "../state.ts";
import { show } from "./commands.ts";

export type Permission = NotificationPermission | "unsupported";

export function permission(): Permission {
  return "Notification" in globalThis ? Notification.permission : "unsupported";
}

export async function askToNotify(): Promise<Permission> {
  return "Notification" in globalThis ? await Notification.requestPermission() : "unsupported";
}

/** What a change of a row is worth telling; null is nothing. */
export function newsOf(before: SessionShown | undefined, now: SessionShown): string | null {
  if (!before) return null;
  if (now.open_asks > before.open_asks) return "Needs your answer.";
  if (before.open_runs > 0 && now.open_runs === 0) return "Finished.";
  return null;
}

/** Follows the list; once, at the start. */
export function followNews(): void {
  let before = new Map<string, SessionShown>();
  let wasLoaded = false;
  effect(() => {
    const rows = sessions.value;
    const after = new Map(rows.map((row) => [row.id, row]));
    untracked(() => {
      for (const row of rows) {
        const words = newsOf(before.get(row.id) ?? (wasLoaded ? begunSince(before, row) : undefined), row);
        if (words) tell(row, words);
      }
      wasLoaded = sessionsLoaded.value;
    });
    before = after;
  });
  effect(() => {
    const count = waitingForYou.value;
    const title = session.value?.title.value;
    document.title = `${count > 0 ? `(${count}) ` : ""}${title ? `${title} · ` : ""}Holdfast`;
  });
}

/** The row before its first ask, if it is a chat that began after all that were known; older ones are no news. */
export function begunSince(
  known: ReadonlyMap<string, SessionShown>,
  row: SessionShown,
): SessionShown | undefined {
  const isNew = [...known.values()].every((one) => one.created_at < row.created_at);
  return isNew ? { ...row, open_asks: 0 } : undefined;
}

function tell(row: SessionShown, words: string): void {
  if (!document.hidden || !settings.value.notifications || permission() !== "granted") return;
  try {
    // One notification for each chat: a newer one takes the place of the older.
    const shown = new Notification(row.title || row.preview || "Holdfast", {
      body: words,
      tag: row.id,
      icon: `${MOUNT}/icon.svg`,
    });
    shown.onclick = () => {
      globalThis.focus();
      show(row.id);
      shown.close();
    };
  } catch {
    // Browsers of phones have the name and the permission, and refuse the thing.
    changeSettings({ notifications: false });
  }
}
