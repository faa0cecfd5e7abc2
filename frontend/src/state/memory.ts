/** What agents remember, and what they propose to remember. */

import { computed, signal } from "@preact/signals";
import type { Result } from "../api.ts";
import type {
  MemoryChangeShown,
  MemoryForgotten,
  MemoryHistory,
  MemoryList,
  MemoryProposalShown,
  MemoryShown,
} from "../bodies.ts";
import { ask } from "./asking.ts";
import { newOrder } from "./order.ts";
import { needsYou, session } from "./signals.ts";

/** The memories as last read; null before that, or if the server has none. */
export const memories = signal<MemoryList | null>(null);

export interface Proposal {
  readonly memory: MemoryShown;
  readonly proposal: MemoryProposalShown;
}

/** What waits for a person, the oldest first. */
export const proposals = computed<readonly Proposal[]>(() =>
  (memories.value?.data ?? [])
    .flatMap((memory) => (memory.proposals ?? []).map((proposal) => ({ memory, proposal })))
    .toSorted((a, b) => a.proposal.proposed_at - b.proposal.proposed_at),
);

/** Everything that waits for a person: approvals, questions and proposals. */
export const waitingForYou = computed(() => needsYou.value + proposals.value.length);

/** The same without the open session: what a badge elsewhere should count. */
export const waitingElsewhere = computed(() =>
  Math.max(0, waitingForYou.value - (session.value?.row.value?.open_asks ?? 0)),
);

const inOrder = newOrder();

export async function loadMemories(): Promise<Result<MemoryList>> {
  const isNews = inOrder();
  const result = await ask<MemoryList>("GET", "/v1/memory");
  if (result.ok && isNews()) memories.value = result.value;
  return result;
}

/** The fields that name a memory in requests. */
function placeOf({ scope, workspace, chat }: MemoryShown): Readonly<Record<string, string>> {
  return { scope, ...(workspace ? { workspace } : {}), ...(chat ? { chat } : {}) };
}

async function changed<Value>(request: Promise<Result<Value>>): Promise<Result<Value>> {
  const result = await request;
  await loadMemories();
  return result;
}

export function decideMemory(
  memory: MemoryShown,
  verdict: "accept" | "reject",
  ids: readonly string[],
): Promise<Result<unknown>> {
  return changed(ask("POST", "/v1/memory/decide", { body: { ...placeOf(memory), [verdict]: ids } }));
}

/** Refused if the memory isn't the one that was shown any more. */
export function editMemory(memory: MemoryShown, document: string, text: string): Promise<Result<unknown>> {
  const body = { ...placeOf(memory), document, text, seen_seq: memory.last_seq ?? 0 };
  return changed(ask("PUT", "/v1/memory", { body }));
}

export function rollBackMemory(memory: MemoryShown, toSeq: number): Promise<Result<unknown>> {
  const body = { ...placeOf(memory), to_seq: toSeq, seen_seq: memory.last_seq ?? 0 };
  return changed(ask("POST", "/v1/memory/rollback", { body }));
}

/** Takes back one change; later ones stay. */
export function undoChange(memory: MemoryShown, changeId: string): Promise<Result<unknown>> {
  return changed(ask("POST", "/v1/memory/rollback", { body: { ...placeOf(memory), change_id: changeId } }));
}

export function forgetMemory(memory: MemoryShown, text: string): Promise<Result<MemoryForgotten>> {
  return changed(ask("POST", "/v1/memory/forget", { body: { ...placeOf(memory), text } }));
}

export async function memoryHistory(memory: MemoryShown): Promise<Result<readonly MemoryChangeShown[]>> {
  const result = await ask<MemoryHistory>(
    "GET",
    `/v1/memory/history?${new URLSearchParams(placeOf(memory))}`,
  );
  return result.ok ? { ok: true, value: result.value.data } : result;
}
