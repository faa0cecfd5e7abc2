/** The session list: its pages, its changes, its search. */

import { batch } from "@preact/signals";
import { failed, type Result, type Trouble } from "../api.ts";
import type { SessionShown } from "../bodies.ts";
import { ask } from "./asking.ts";
import type { FoundSession } from "./page_state.ts";
import {
  archivedShown,
  needsYou,
  openRow,
  search,
  searchWithin,
  session,
  sessions,
  sessionsLoaded,
  sessionsMore,
} from "./signals.ts";

const PAGE = 50;
const TYPING_MS = 150;

interface ListPage<Row> {
  readonly data: readonly Row[];
  readonly next_cursor: string | null;
  readonly open_asks?: number;
}

// Sessions of plain OpenAI clients are not listed, so their changes are no news either.
const HIDDEN_SOURCES: ReadonlySet<string> = new Set(["openai", "child"]);

const STALE: Trouble = { message: "The list has changed.", code: "stale", status: 0, param: null };

let cursor: string | null = null;
/** How often the list was restarted: responses for an earlier one are ignored. */
let begun = 0;
let looking: Promise<Result<unknown>> | null = null;
let searching: AbortController | null = null;
let typing: ReturnType<typeof setTimeout> | undefined;

/** The first page, in place of what is there. */
export function loadSessions(): Promise<Result<unknown>> {
  begun += 1;
  looking = look().finally(() => {
    looking = null;
  });
  return looking;
}

type RowsPage = ListPage<SessionShown>;

async function page(take: (page: RowsPage) => void, rest = ""): Promise<Result<RowsPage>> {
  const mine = begun;
  const archived = archivedShown.value ? "&archived=true" : "";
  const path = `/api/sessions?limit=${PAGE}${archived}${rest}`;
  const counted = counts;
  const asked = ask<RowsPage>("GET", path);
  return takeRows(
    asked.then((result) => (mine === begun ? result : failed(STALE))),
    (rows) => {
      if (counts === counted) countAsks(rows.open_asks);
      take(rows);
    },
  );
}

/** The number of counts received, to detect responses that were requested before the newest one. */
let counts = 0;

/** Stores the server's count of open requests in all sessions; earlier versions send none. */
export function countAsks(count: number | undefined): void {
  counts += 1;
  needsYou.value = count ?? 0;
}

/** For each request for rows that is under way, what came (or went: null) meanwhile. */
const underWay = new Set<Map<string, SessionShown | null>>();

/**
 * Waits for a response with rows and hands it over. What changed meanwhile stays as it is: the server may have
 * written the response before the change, and nothing would correct it until the next one.
 */
export async function takeRows<T>(asked: Promise<Result<T>>, take: (value: T) => void): Promise<Result<T>> {
  const meanwhile = new Map<string, SessionShown | null>();
  underWay.add(meanwhile);
  try {
    const result = await asked;
    if (result.ok) {
      const changed = [...meanwhile];
      batch(() => {
        take(result.value);
        for (const [id, row] of changed) {
          if (row === null) dropRow(id);
          else putRow(row);
        }
      });
    }
    return result;
  } finally {
    underWay.delete(meanwhile);
  }
}

function look(): Promise<Result<unknown>> {
  return page((first) => {
    sessions.value = first.data;
    tellMore(first);
    sessionsLoaded.value = true;
  });
}

/** The first page again: further rows stay, and rows that it should hold and does not are gone. */
export async function refreshSessions(): Promise<void> {
  if (!sessionsLoaded.value) {
    await (looking ?? loadSessions());
    return;
  }
  await page(refresh);
}

function refresh(first: RowsPage): void {
  const { data, next_cursor } = first;
  const last = data.at(-1);
  if (next_cursor === null || last === undefined) {
    sessions.value = data;
    tellMore(first);
    return;
  }
  const fresh = new Set(data.map((row) => row.id));
  const others = sessions.value.filter((row) => !fresh.has(row.id));
  const all = ordered([...others, last]);
  const below = all.slice(all.indexOf(last) + 1);
  sessions.value = [...data, ...below];
  if (below.length === 0) {
    tellMore(first);
  }
}

/** The next page of the list, if there is one. */
export function loadMoreSessions(): Promise<Result<unknown>> {
  const take = (next: RowsPage): void => {
    const known = new Set(sessions.value.map((row) => row.id));
    sessions.value = ordered([...sessions.value, ...next.data.filter((row) => !known.has(row.id))]);
    tellMore(next);
  };
  return page(take, `&cursor=${encodeURIComponent(cursor ?? "")}`);
}

function tellMore(page: ListPage<unknown>): void {
  cursor = page.next_cursor;
  sessionsMore.value = cursor !== null;
}

/** Archived sessions in place of the others, or back. */
export function showArchived(shown: boolean): Promise<Result<unknown>> {
  archivedShown.value = shown;
  // What is there, and the way on from it, is of the other kind.
  sessionsLoaded.value = false;
  sessionsMore.value = false;
  return loadSessions();
}

/** Pinned first, then the newest; the same order as the server's. */
export function ordered(rows: readonly SessionShown[]): SessionShown[] {
  return rows.toSorted(
    (a, b) => Number(b.pinned) - Number(a.pinned) || b.updated_at - a.updated_at || (a.id < b.id ? 1 : -1),
  );
}

/** A row came or changed. */
export function putRow(row: SessionShown): void {
  for (const meanwhile of underWay) meanwhile.set(row.id, row);
  const others = sessions.value.filter((other) => other.id !== row.id);
  const isListed =
    row.archived === archivedShown.value && !HIDDEN_SOURCES.has(row.source) && row.purge_at === undefined;
  sessions.value = isListed ? ordered([...others, row]) : others;
  if (row.id === session.value?.id) {
    openRow.value = row;
  }
}

export function dropRow(sessionId: string): void {
  for (const meanwhile of underWay) meanwhile.set(sessionId, null);
  sessions.value = sessions.value.filter((row) => row.id !== sessionId);
}

/** Full-text search, a moment after the last letter; no words end it. */
export function searchFor(words: string): void {
  searching?.abort();
  clearTimeout(typing);
  if (words.trim() === "") {
    search.value = null;
    return;
  }
  const mine = new AbortController();
  searching = mine;
  search.value = { words, busy: true, found: search.value?.found ?? [], trouble: null };
  typing = setTimeout(async () => {
    const within = searchWithin.value ? `&session_id=${encodeURIComponent(searchWithin.value)}` : "";
    const path = `/api/sessions?limit=${PAGE}&q=${encodeURIComponent(words)}${within}`;
    const result = await ask<ListPage<FoundSession>>("GET", path, { signal: mine.signal });
    if (mine.signal.aborted) {
      return;
    }
    search.value = result.ok
      ? { words, busy: false, found: result.value.data, trouble: null }
      : { words, busy: false, found: [], trouble: result.trouble };
  }, TYPING_MS);
}

/** Searches one session alone, or all again; what is looked for stays the same. */
export function searchIn(sessionId: string): void {
  if (searchWithin.value !== sessionId) {
    searchWithin.value = sessionId;
    searchFor(search.value?.words ?? "");
  }
}
