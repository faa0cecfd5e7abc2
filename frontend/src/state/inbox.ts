/** Everything that waits for a person, over all chats: the server's list, read again when a row of the chats changes. */

import { computed, effect, signal, untracked } from "@preact/signals";
import type { OpenAsk } from "../bodies.ts";
import { loadMemories, proposals } from "../features/memory/memories.ts";
import { waitingAsks } from "./asks.ts";
import { newOrder } from "./order.ts";
import { connection, has, needsYou, session, sessions } from "./signals.ts";

/** The oldest first. */
export const inbox = signal<readonly OpenAsk[]>([]);

/** The ask whose card is to have the focus as soon as it is on the page; "" is none. */
export const wantedAsk = signal("");

export function askIdOf(ask: OpenAsk): string {
  return ask.kind === "approval" ? ask.approval_id : ask.question_id;
}

/** Everything that waits for a person: approvals, questions and proposals. */
export const waitingForYou = computed(() => needsYou.value + proposals.value.length);

/** The same without the open session: what a badge elsewhere should count. */
export const waitingElsewhere = computed(() =>
  Math.max(0, waitingForYou.value - (session.value?.row.value?.open_asks ?? 0)),
);

const inOrder = newOrder();

/** Reads all of it; the server answers about memories and asks in any order. */
export async function loadInbox(): Promise<void> {
  if (has("memory")) void loadMemories();
  const isNews = inOrder();
  const result = await waitingAsks();
  if (result.ok && isNews()) inbox.value = result.value.toSorted((a, b) => a.asked_at - b.asked_at);
}

/** Follows the chats; once, at the start. */
export function followInbox(): void {
  // what waits in each chat, as one text: another text is a reason to ask
  const known = computed(() => {
    if (connection.value !== "live") return null;
    // between two looks at a row, one ask may be answered and another one come: then only its time differs
    const rows = sessions.value.map((row) =>
      row.open_asks > 0 ? `${row.id} ${row.open_asks} ${row.updated_at}` : "",
    );
    // a run that ends may have proposed something; a short one may never be seen at work
    const run = `${needsYou} ${session.value?.runs.value.size} ${session.value?.currentRun.value?.run_id}`;
    return [...rows, run, ...(session.value?.openAsks.value ?? []).map((ask) => ask.ask_id)].sort().join(" ");
  });
  effect(() => {
    if (known.value !== null) void untracked(loadInbox);
  });
}
