/** The page's state as signals; components read them, actions and the stream write them. */

import { signal } from "@preact/signals";
import type { SessionShown, TargetState } from "../bodies.ts";
import type { Connection, LiveLine, OpenSession, Search, Server } from "./page_state.ts";

/** The open session; null is the start page, where the first message begins a session. */
export const session = signal<OpenSession | null>(null);

/** The newest row of the open session that came, for when the list does not hold it. */
export const openRow = signal<SessionShown | null>(null);

/** The session list, pinned first, then newest first. */
export const sessions = signal<readonly SessionShown[]>([]);

/** Whether the list has a further page (see `loadMoreSessions`), and whether any page came yet. */
export const sessionsMore = signal(false);
export const sessionsLoaded = signal(false);

/** Whether the list shows archived sessions in place of the others. */
export const archivedShown = signal(false);

/** The running search, null when there is none. */
export const search = signal<Search | null>(null);

/** The session that is searched alone; empty is all of them. */
export const searchWithin = signal("");

export const connection = signal<Connection>("connecting");

/** Why the link that opened the page let nobody in; empty if it did, or if there was none. */
export const linkTrouble = signal("");

/** The live line of the open session's run; null when there is nothing to wait for. */
export const live = signal<LiveLine | null>(null);

/** When the open session's log last grew here, and which one that is; at first nobody knows. */
export const heard = signal({ session_id: "", at_ms: 0 });

/** The run that Escape was pressed for once: pressed again, it stops. Empty if there is none. */
export const stopAsked = signal("");

/** The newest seq that is saved and shown here: the "saved · 1843" tick. */
export const saved = signal(0);

/** Why the server's store rejected the page's last write; empty once a write or a new event gets through. */
export const storeError = signal("");

export const targets = signal<readonly TargetState[]>([]);
export const server = signal<Server | null>(null);

/** Whether the key may do this, as far as is known: the server has the last word. */
export function may(scope: "approve" | "admin"): boolean {
  return server.value?.scopes.includes(scope) ?? true;
}

/** Whether the server has the feature, as far as is known. */
export function has(feature: string): boolean {
  return server.value === null || server.value.features[feature] === true;
}

/** How many approvals and questions wait for a person in all sessions, as the server counts them. */
export const needsYou = signal(0);

/** A clock of one tick a second while someone looks, for relative times and countdowns. */
export const nowMs = signal(Date.now());

/** The same for the state of a run; it pauses while the connection is down, when nothing is known. */
export const runNowMs = signal(Date.now());
