/** Versions of a message: each is a chat of its own, forked before the message; its id says from which chat and where. */

import type { Entry, PersonEntry } from "./entries.ts";

/** The place of a message that has versions: the chat in which it was said first, and the seq before it. */
export interface Place {
  readonly base: string;
  readonly at_seq: number;
}

const VERSION = /^(.+)~(\d+)\.(\d+)$/;

/** The id of the nth version; the first is the chat itself. */
export function versionId({ base, at_seq }: Place, nth: number): string {
  return nth === 1 ? base : `${base}~${at_seq}.${nth}`;
}

/** The place at which the chat differs from the one that it's a version of, and which version it is. */
export function placeOf(sessionId: string): { readonly place: Place; readonly nth: number } | null {
  const found = VERSION.exec(sessionId);
  if (found === null) return null;
  return { place: { base: found[1] ?? "", at_seq: Number(found[2]) }, nth: Number(found[3]) };
}

/** The chat that this one, or what it's a version of, began as. */
export function rootOf(sessionId: string): string {
  const found = placeOf(sessionId);
  return found === null ? sessionId : rootOf(found.place.base);
}

/** The message's place: in a version, its first message of its own has the place that all versions share. */
export function placeIn(sessionId: string, entry: PersonEntry, entries: readonly Entry[]): Place {
  const own = placeOf(sessionId);
  const first = entries.find((one) => one.kind === "person" && one.message.seq > (own?.place.at_seq ?? 0));
  if (own !== null && first === entry) return own.place;
  // what was said while another run was under way begins when that has ended
  const ended = entries.slice(0, entries.indexOf(entry)).findLast((one) => one.kind === "ending");
  return { base: sessionId, at_seq: Math.max(entry.message.seq - 1, ended?.seq ?? 0) };
}

/** The versions of a message that are known: their numbers, in order. */
export function versionsAt(place: Place, sessionIds: Iterable<string>): number[] {
  const known = new Set([1]);
  for (const id of sessionIds) {
    const found = placeOf(id);
    if (found?.place.base === place.base && found.place.at_seq === place.at_seq) known.add(found.nth);
  }
  return [...known].sort((a, b) => a - b);
}
