/** Messages on their way to the server, kept in the browser until the server has them. */

import { signal } from "@preact/signals";
import type { Pending } from "./page_state.ts";
import { forgetUnder, keep, keptUnder } from "./storage.ts";

// Each message has a key of its own, since other tabs keep theirs in the same storage.
const PREFIX = "holdfast.outbox.";

/** All of them, of all sessions, oldest first. */
export const outbox = signal<readonly Pending[]>([]);

/** Those that an earlier page left behind, or that failed here, to be sent again under the same ids. */
export function readOutbox(): readonly Pending[] {
  // what was written since the page began is on its way already, and may have arrived
  const underWay = outbox.value.filter((one) => one.state !== "failed");
  const known = new Set(underWay.map((one) => one.client_id));
  const failed = outbox.value.filter((one) => one.state === "failed");
  const found = [...keptUnder(PREFIX).filter(isPending), ...failed].filter(
    (one) => !known.has(one.client_id),
  );
  const left = [...new Map(found.map((one) => [one.client_id, one])).values()];
  outbox.value = [...left, ...underWay].toSorted((a, b) => a.made_ms - b.made_ms);
  return left.toSorted((a, b) => a.made_ms - b.made_ms);
}

/** On sign-out: unsent messages are not for the next person. */
export function forgetOutbox(): void {
  outbox.value = [];
  forgetUnder(PREFIX);
}

export function pendingOf(sessionId: string): readonly Pending[] {
  return outbox.value.filter((one) => one.session_id === sessionId);
}

/** Whether what was kept is a message, and not what another page or a person left there. */
function isPending(found: unknown): found is Pending {
  const { client_id, session_id, text, parts } = (found ?? {}) as Partial<Pending>;
  return [client_id, session_id, text].every((one) => typeof one === "string") && Array.isArray(parts);
}

export function putPending(one: Pending): void {
  const at = outbox.value.findIndex((other) => other.client_id === one.client_id);
  outbox.value = at < 0 ? [...outbox.value, one] : outbox.value.with(at, one);
  // What the server has is no longer kept in the browser.
  keep(PREFIX + one.client_id, one.state === "sent" ? null : one);
}

export function dropPending(clientIds: Iterable<string>): void {
  const gone = new Set(clientIds);
  if (outbox.value.some((one) => gone.has(one.client_id))) {
    outbox.value = outbox.value.filter((one) => !gone.has(one.client_id));
  }
  for (const clientId of gone) {
    keep(PREFIX + clientId, null);
  }
}
