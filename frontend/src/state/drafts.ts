/** What is written and not sent: saved on the server, and in the browser until the server has it. */

import { signal } from "@preact/signals";
import { isPassing, sessionPath } from "../api.ts";
import { ask } from "./asking.ts";
import type { Opened } from "./opened.ts";
import { forgetUnder, keep, kept } from "./storage.ts";

const TYPING_MS = 600;
const HOME_KEY = "holdfast.draft";

/** The draft of the start page, where there is no session yet. */
export const homeDraft = signal("");

let typing: ReturnType<typeof setTimeout> | undefined;
let unsaved: Opened | null = null;
/** How often anything was written. */
let written = 0;
// what did not get through, by session
const failed = new Map<string, Opened>();

function keyOf(sessionId: string): string {
  return `${HOME_KEY}.${sessionId}`;
}

export function readHomeDraft(): void {
  const found = kept(HOME_KEY);
  homeDraft.value = typeof found === "string" ? found : "";
}

export function writeHomeDraft(text: string): void {
  homeDraft.value = text;
  keep(HOME_KEY, text);
}

/** The draft of a session that was just opened: what this browser could not save yet is the newer one. */
export async function readDraft(here: Opened): Promise<void> {
  const found = kept(keyOf(here.id));
  if (typeof found === "string" && found !== "") {
    here.draft.value = found;
    return;
  }
  const before = written;
  const result = await ask<{ text: string }>("GET", sessionPath(here.id, "/draft"));
  // what was written, or sent, since then is newer, also if nothing is left of it
  if (result.ok && here.draft.value === "" && before === written) {
    here.draft.value = result.value.text;
  }
}

/** Keeps it here at once, and on the server a moment after the last letter. */
export function writeDraft(here: Opened, text: string): void {
  written += 1;
  here.draft.value = text;
  keep(keyOf(here.id), text);
  clearTimeout(typing);
  if (unsaved !== null && unsaved !== here) {
    void save(unsaved);
  }
  unsaved = here;
  typing = setTimeout(() => void save(here), text === "" ? 0 : TYPING_MS);
}

/** The page is about to go, or the line is up again: what is unsaved goes out now. */
export function saveDraftNow(): void {
  clearTimeout(typing);
  const all = new Map(failed);
  if (unsaved !== null) {
    all.set(unsaved.id, unsaved);
  }
  for (const here of all.values()) {
    void save(here);
  }
}

/** Somebody signs out. */
export function forgetDrafts(): void {
  clearTimeout(typing);
  unsaved = null;
  failed.clear();
  forgetUnder(HOME_KEY);
}

async function save(here: Opened): Promise<void> {
  const text = here.draft.value;
  failed.delete(here.id);
  if (unsaved === here) {
    unsaved = null;
  }
  // A browser takes no more than 64 KiB along when its page goes.
  const keepalive = text.length < 20_000;
  const result = await ask("PUT", sessionPath(here.id, "/draft"), { body: { text }, keepalive });
  if (!result.ok) {
    // Also that nothing is left to say must get through, or what was sent is there again in another browser.
    if (isPassing(result.trouble) && unsaved?.id !== here.id) {
      failed.set(here.id, here);
    }
  } else if (here.draft.value === text) {
    keep(keyOf(here.id), "");
  } else if (unsaved !== here) {
    // What was written since is on its way, and this may have come after it.
    void save(here);
  }
}
