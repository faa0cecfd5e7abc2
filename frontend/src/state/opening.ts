/** Opening a session: its newest page first, then every event from there on; older pages when asked for. */

import { effect, untracked } from "@preact/signals";
import { type Result, sessionPath, type Trouble } from "../api.ts";
import type { SessionShown } from "../bodies.ts";
import type { LogRecord } from "../events.ts";
import type { NewestPage, Page } from "../view/window.ts";
import { ask } from "./asking.ts";
import { homeDraft, readDraft, writeDraft, writeHomeDraft } from "./drafts.ts";
import { follow, type LinkListener, unfollow } from "./link.ts";
import { Opened } from "./opened.ts";
import { newOrder } from "./order.ts";
import { dropPending, outbox } from "./outbox.ts";
import type { Hit } from "./page_state.ts";
import { live, session, sessions } from "./signals.ts";

export { homeDraft };

const NEWEST = 60;
const OLDER = 100;
// the most that the server gives at once
const FAR = 500;
const TRIES = 6;
const READ_MS = 700;
const AGAIN_MS = [300, 1000, 3000];
const MISSED_MS = 10_000;

let opened: Opened | null = null;
let reading: ReturnType<typeof setTimeout> | null = null;
let missing: ReturnType<typeof setTimeout> | undefined;
let whenLive: () => void = () => {};
const inOrder = newOrder();

const listener: LinkListener = {
  records: (here, records) => {
    if (here === opened) {
      take(here, records);
    }
  },
  gone: (id) => {
    if (opened?.id === id) {
      opened.stage.value = "gone";
      follow(null, listener);
    }
  },
  isLive: () => whenLive(),
};

/** What is to be done whenever the line is up. */
export function onLive(work: () => void): void {
  whenLive = work;
}

/** Shows a session; "new" is one that is not on the server yet. The address bar follows `session` by itself. */
export function open(sessionId: string, how: "known" | "new" = "known"): void {
  if (opened?.id === sessionId && (how === "new" || opened.stage.value === "ready")) {
    return;
  }
  if (opened?.id !== sessionId) {
    leave();
  }
  const here = opened?.id === sessionId ? opened : new Opened(sessionId);
  opened = here;
  session.value = here;
  if (how === "new") {
    here.stage.value = "new";
    return;
  }
  void load(here);
  void readDraft(here);
}

/** Shows a session at what a search found in it, however far above. */
export function openAt(sessionId: string, hit: Hit): void {
  open(sessionId);
  if (opened?.id === sessionId && hit.seq > 0) {
    opened.target.value = { ...hit };
    opened.missed.value = "";
    void reach(opened);
  }
}

/** Reads upwards until what is looked for is here. */
async function reach(here: Opened): Promise<void> {
  const isMissing = () => {
    const target = here.target.value;
    return target !== null && here.view.olderBefore > 0 && (here.view.entries[0]?.seq ?? 0) > target.seq;
  };
  while (here === opened && here.stage.value === "ready" && isMissing()) {
    if (here.loadingOlder.value) {
      await pause(50);
      continue;
    }
    const result = await loadOlder(FAR);
    if (!result.ok) {
      miss(here, result.trouble.message);
    }
  }
}

/** What a search found in the open session is not among what is shown of it. */
export function missTarget(target: Hit): void {
  // by now another chat, or another result, may be looked for
  if (opened?.target.value === target) {
    miss(opened, "This result is no longer in the chat. It was edited, or it's still queued.");
  }
}

function miss(here: Opened, words: string): void {
  here.target.value = null;
  here.missed.value = words;
  // words about an earlier result must not take these away early
  clearTimeout(missing);
  missing = setTimeout(() => {
    here.missed.value = "";
  }, MISSED_MS);
}

/** The start page, where the first message begins a session. */
export function openStart(): void {
  leave();
  opened = null;
  session.value = null;
  follow(null, listener);
}

type OpenedPage = NewestPage & { readonly session: SessionShown };

/** The newest page, then the stream from there; it tries until the session is no longer wanted. */
async function load(here: Opened): Promise<void> {
  for (let nth = 0; here === opened; nth += 1) {
    const isNews = inOrder();
    const result = await ask<OpenedPage>("GET", sessionPath(here.id, `/messages?limit=${NEWEST}`));
    if (here !== opened || !isNews()) {
      return;
    }
    if (result.ok) {
      here.load(result.value);
      settle(here);
      follow(here, listener);
      void reach(here);
      const [run, text] = Object.entries(result.value.live)[0] ?? [];
      live.value = run && text ? { run_id: run, text, at_ms: Date.now() } : null;
      return;
    }
    if (result.trouble.status === 401) {
      return;
    }
    here.trouble.value = result.trouble;
    if (result.trouble.status === 404) {
      listener.gone(here.id);
      return;
    }
    if (here.stage.value === "loading") {
      here.stage.value = "failed";
    }
    await pause(AGAIN_MS[Math.min(nth, AGAIN_MS.length - 1)] ?? 0);
  }
}

/** After a sign-in: load everything again. */
export function openAgain(): void {
  if (opened === null) {
    follow(null, listener);
  } else {
    // a refusal that is still on its way was meant for who was signed in before
    unfollow();
    void load(opened);
    void readDraft(opened);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function take(here: Opened, records: readonly LogRecord[]): void {
  for (const record of records) {
    if (!here.take(record)) {
      // A gap, another log under the same id, or something above the window: the server knows.
      follow(null, listener);
      void load(here);
      return;
    }
  }
  here.showToReaders();
  settle(here);
}

/** What is in the log is no longer on its way; what is looked at is read. */
function settle(here: Opened): void {
  if (outbox.value.length > 0) {
    const arrived = outbox.value.filter((one) => one.session_id === here.id && here.has(one.client_id));
    dropPending(arrived.map((one) => one.client_id));
  }
  reading ??= readSoon(here.view.lastSeq);
}

/** Looks later how far was read; not while more comes, since that would be unread again at once. */
function readSoon(seq: number): ReturnType<typeof setTimeout> {
  return setTimeout(() => {
    const lastSeq = opened?.view.lastSeq ?? seq;
    reading = lastSeq === seq ? null : readSoon(lastSeq);
    if (reading === null) {
      looked();
    }
  }, READ_MS);
}

/** Follows the row of the open session: it may say only later than the log that something is unread. Once, at the start. */
export function followUnread(): void {
  effect(() => {
    if (session.value?.row.value?.unread) {
      untracked(() => {
        reading ??= readSoon(opened?.view.lastSeq ?? 0);
      });
    }
  });
}

/** Another session is about to be shown: what came to this one and was seen does not wait to be marked. */
function leave(): void {
  if (reading === null) {
    return;
  }
  clearTimeout(reading);
  reading = null;
  if (opened !== null) {
    void markRead(opened);
  }
}

/** Tells the server how far was read, if someone looks. */
async function markRead(here: Opened): Promise<void> {
  if (here.stage.value === "ready" && document.visibilityState === "visible") {
    await ask("PATCH", sessionPath(here.id), { body: { read_seq: here.view.lastSeq } });
  }
}

/** The tab is looked at again; the server is told if it thinks that something is unread. */
export function looked(): void {
  const row = sessions.value.find((one) => one.id === opened?.id);
  if (opened !== null && row?.unread) {
    void markRead(opened);
  }
}

const MOVING: Trouble = {
  message: "Couldn't load older messages. Try again shortly.",
  code: "moving",
  status: 0,
  param: null,
};

/** The page above the window. */
export async function loadOlder(limit = OLDER): Promise<Result<unknown>> {
  const here = opened;
  if (here === null || here.view.olderBefore === 0 || here.loadingOlder.value) {
    return { ok: true, value: null };
  }
  here.loadingOlder.value = true;
  try {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const path = `/messages?limit=${limit}&before=${here.view.olderBefore}`;
      const result = await ask<Page>("GET", sessionPath(here.id, path));
      if (!result.ok) {
        return result;
      }
      const reached = await reaches(here, result.value.last_seq);
      if (reached && here.addOlder(result.value) === "added") {
        return { ok: true, value: null };
      }
    }
    return { ok: false, trouble: MOVING };
  } finally {
    here.loadingOlder.value = false;
  }
}

const MANY = 600;
const KEPT = 200;

/** To be called when the reader is back at the newest message: what was read far above is let go. */
export function trimOlder(): void {
  if (opened !== null && opened.view.entries.length > MANY && !opened.loadingOlder.value) {
    opened.trim(KEPT);
  }
}

/** Whether the stream brings the view as far as the page soon. */
async function reaches(here: Opened, seq: number): Promise<boolean> {
  for (let tries = 0; here.view.lastSeq < seq && tries < 40; tries += 1) {
    await pause(50);
  }
  return here === opened && here.view.lastSeq >= seq;
}

/** What is written and not sent, of the open session or of the start page. */
export function saveDraft(text: string): void {
  if (opened === null) {
    writeHomeDraft(text);
  } else {
    writeDraft(opened, text);
  }
}
