/** The sub-agents of the open session, and its parent if it is one: read again while any of them works. */

import { computed, effect, signal, untracked } from "@preact/signals";
import { isPassing, sessionPath } from "../api.ts";
import type { ChildList, ChildShown, OpenAsk } from "../bodies.ts";
import { ask } from "./asking.ts";
import { type ExactAsk, exactAsk, questionCard } from "./asks.ts";
import { askIdOf } from "./inbox.ts";
import { connection, session } from "./signals.ts";

const AGAIN_MS = 2000;

/** The tree under the open session, as far as the server told; null if it has none. */
export const family = signal<ChildList | null>(null);

/** What a sub-agent asks, exactly as its own log has it. */
export interface ChildAsk extends ExactAsk {
  readonly name: string;
}

/** What sub-agents of the open session ask a person now. */
export const childAsks = signal<readonly ChildAsk[]>([]);

const isTold = computed(() => {
  const here = session.value;
  if (here === null || connection.value !== "live" || here.stage.value !== "ready") return "";
  const isChild = here.row.value?.source === "child";
  const hasChildren =
    here.childrenSeq.value > 0 ||
    here.entries.value.some((entry) => entry.kind === "tool" && entry.name === "delegate");
  return isChild || hasChildren ? `${here.id} ${here.childrenSeq.value}` : "";
});

let timer: ReturnType<typeof setTimeout> | undefined;
let reading = 0;

/** Reads the tree now. */
export async function loadFamily(): Promise<void> {
  clearTimeout(timer);
  const id = session.peek()?.id;
  if (id === undefined || isTold.peek() === "") return;
  reading += 1;
  const mine = reading;
  const result = await ask<ChildList>("GET", sessionPath(id, "/children"));
  // an older answer must not take the place of a newer one, nor that of another chat
  if (mine !== reading || session.peek()?.id !== id) return;
  if (result.ok) {
    family.value = result.value;
    const asks = await asksOf(result.value.data);
    // what they ask is read from their logs, and meanwhile another chat may have been opened
    if (mine !== reading) return;
    showAsks(asks);
  }
  const isNotKnown = !result.ok && isPassing(result.trouble);
  const works = family.value?.data.some((child) => child.outcome === undefined) ?? false;
  if (isNotKnown || works) timer = setTimeout(() => void loadFamily(), AGAIN_MS);
}

/** Approvals come from the log of the sub-agent, so that what is approved is the exact action. */
async function asksOf(children: readonly ChildShown[]): Promise<readonly ChildAsk[]> {
  const open = children.flatMap((child) => (child.asks ?? []).map((one) => ({ name: child.name, one })));
  const known = knownAsks();
  const found = await Promise.all(open.map(({ name, one }) => known.get(askIdOf(one)) ?? exactly(name, one)));
  return found.filter((one) => one !== null);
}

function knownAsks(): ReadonlyMap<string, ChildAsk> {
  return new Map(childAsks.peek().map((one) => [one.card.ask_id, one]));
}

function showAsks(asks: readonly ChildAsk[]): void {
  const known = knownAsks();
  const isSame = asks.length === known.size && asks.every((one) => known.get(one.card.ask_id) === one);
  if (!isSame) childAsks.value = asks;
}

async function exactly(name: string, one: OpenAsk): Promise<ChildAsk | null> {
  if (one.kind === "question") return { name, card: questionCard(one), args: {} };
  const result = await exactAsk(one);
  return result.ok ? { name, ...result.value } : null;
}

/** Follows the open session; once, at the start. */
export function followFamily(): void {
  let shown = "";
  effect(() => {
    const id = session.value?.id ?? "";
    const told = isTold.value;
    untracked(() => {
      if (id !== shown) {
        shown = id;
        reading += 1;
        family.value = null;
        childAsks.value = [];
      }
      if (told !== "") void loadFamily();
      else clearTimeout(timer);
    });
  });
}
