/** The memories as last read, and the proposals in them. */

import { computed, signal } from "@preact/signals";
import type { Result } from "../../api.ts";
import type { MemoryList, MemoryProposalShown, MemoryShown } from "../../bodies.ts";
import { ask } from "../../state/asking.ts";
import { newOrder } from "../../state/order.ts";

/** The memories as last read; null before that, or if the server has none. */
export const memories = signal<MemoryList | null>(null);

export interface Proposal {
  readonly memory: MemoryShown;
  readonly proposal: MemoryProposalShown;
}

/** The open proposals, the oldest first. */
export const proposals = computed<readonly Proposal[]>(() =>
  (memories.value?.data ?? [])
    .flatMap((memory) => (memory.proposals ?? []).map((proposal) => ({ memory, proposal })))
    .toSorted((a, b) => a.proposal.proposed_at - b.proposal.proposed_at),
);

const inOrder = newOrder();

export async function loadMemories(): Promise<Result<MemoryList>> {
  const isNews = inOrder();
  const result = await ask<MemoryList>("GET", "/v1/memory");
  if (result.ok && isNews()) memories.value = result.value;
  return result;
}
