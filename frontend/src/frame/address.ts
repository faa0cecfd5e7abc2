/** The address bar: one URL for each session, and back and forward between them. */
import { effect, untracked } from "@preact/signals";
import { MOUNT } from "../mount.ts";
import { open, openAt, openStart, session } from "../state.ts";
import { rootOf } from "../view/versions.ts";

/** The address of a session, or of an event in it. */
export function addressOf(sessionId: string, seq = 0): string {
  return `${MOUNT}/s/${encodeURIComponent(sessionId)}${seq > 0 ? `#at=${seq}` : ""}`;
}

/** The session's link in the list, if it is there. */
export function linkOf(sessionId: string): HTMLElement | null {
  return document.querySelector<HTMLElement>(`a.row-link[href="${CSS.escape(addressOf(sessionId))}"]`);
}

/** The session that a path names, null for the start page; a path that cannot be read is the start page. */
export function sessionIn(path: string): string | null {
  const own = path.startsWith(`${MOUNT}/`) ? path.slice(MOUNT.length) : path;
  const found = /^\/s\/([^/]+)$/.exec(own)?.[1];
  if (!found) return null;
  try {
    return decodeURIComponent(found);
  } catch {
    return null;
  }
}

/** Opens what the address names, now and whenever a person goes back or forth. */
export function followAddress(): void {
  const show = (): void => {
    const wanted = sessionIn(location.pathname);
    const seq = Number(/^#at=(\d{1,15})$/.exec(location.hash)?.[1] ?? 0);
    if (wanted === null) openStart();
    else if (seq > 0) openAt(wanted, { seq, passage: "" });
    else if (wanted !== session.peek()?.id) open(wanted);
  };
  addEventListener("popstate", show);
  show();
  effect(() => {
    const current = session.value;
    // A session that the server does not know yet has no address that would work in another tab.
    const path = current && current.stage.value !== "new" ? addressOf(current.id) : `${MOUNT}/`;
    untracked(() => {
      if (path === location.pathname) return;
      // another version of the same chat is no step in the history
      const before = sessionIn(location.pathname);
      const isVersion = before !== null && current !== null && rootOf(before) === rootOf(current.id);
      history[isVersion ? "replaceState" : "pushState"](null, "", path);
    });
  });
}
