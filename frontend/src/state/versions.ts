/** Another version of a message: the chat is forked before it, and goes on from another text. */

import { newId, type Result, sessionPath } from "../api.ts";
import type { Started } from "../bodies.ts";
import type { PersonEntry } from "../view/entries.ts";
import { type Place, placeIn, placeOf, versionId, versionsAt } from "../view/versions.ts";
import { ask } from "./asking.ts";
import { open } from "./opening.ts";
import type { OpenSession } from "./page_state.ts";
import { isCommand, send } from "./sending.ts";
import { session, sessions } from "./signals.ts";

const TRIES_MAX = 20;

/** The versions of a message as far as they are known, and which of them is shown. */
export interface Versions {
  readonly place: Place;
  readonly known: readonly number[];
  readonly shown: number;
}

/** The place of the message, and its versions: those of the server, and those that came to the list since. */
export function versionsOf(here: OpenSession, entry: PersonEntry): Versions {
  const place = placeIn(here.id, entry, here.entries.value);
  const own = placeOf(here.id);
  const shown = own?.place.base === place.base && own.place.at_seq === place.at_seq ? own.nth : 1;
  const known = versionsAt(place, [here.id, ...here.versions.value, ...sessions.value.map((row) => row.id)]);
  return { place, known, shown };
}

/** Shows the version before (-1) or after (1) the one that is shown. */
export function showVersion({ place, known, shown }: Versions, by: 1 | -1): void {
  const nth = known[known.indexOf(shown) + by];
  if (nth !== undefined) open(versionId(place, nth));
}

/** Says something else in the message's place. What was said there, and all that followed it, stays as it is. */
export async function newVersion(entry: PersonEntry, text: string): Promise<Result<Started>> {
  const here = session.value;
  if (here === null) return { ok: false, trouble: GONE };
  const { place, known } = versionsOf(here, entry);
  const first = Math.max(...known) + 1;
  let forked: Result<{ readonly id: string }> = { ok: false, trouble: GONE };
  for (let nth = first; nth < first + TRIES_MAX; nth += 1) {
    const body = { at_seq: place.at_seq, id: versionId(place, nth) };
    const headers = { "Idempotency-Key": newId("frk_") };
    forked = await ask("POST", sessionPath(place.base, "/fork"), { body, headers });
    // another tab may have made this one meanwhile
    if (forked.ok || forked.trouble.code !== "session_exists") break;
  }
  if (!forked.ok) return forked;
  const { id } = forked.value;
  // whoever has gone on to another chat meanwhile stays there
  if (session.value === here) open(id);
  return send(text, entry.message.parts, "queue", { id }, isCommand(text) ? "command" : "");
}

const GONE = { message: "This message was removed.", code: "gone", status: 0, param: null };
