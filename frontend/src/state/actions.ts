/** What a person does to sessions: name, pin, archive, delete, fork, export; and the log itself. */

import { call, keepSecret, newId, type Result, sessionPath } from "../api.ts";
import type { SessionShown, TargetState } from "../bodies.ts";
import type { LogRecord } from "../events.ts";
import { MOUNT } from "../mount.ts";
import { ask } from "./asking.ts";
import { forgetDrafts } from "./drafts.ts";
import { dropRow, putRow, takeRows } from "./list.ts";
import { open, openStart } from "./opening.ts";
import { newOrder } from "./order.ts";
import { forgetOutbox } from "./outbox.ts";
import { session, targets } from "./signals.ts";

export {
  homeDraft,
  loadOlder,
  missTarget,
  open,
  openAt,
  openStart,
  saveDraft,
  trimOlder,
} from "./opening.ts";

/** A new conversation: it is on the server from its first message on. */
export function create(): void {
  openStart();
}

function patch(sessionId: string, body: Record<string, unknown>): Promise<Result<SessionShown>> {
  return takeRows(ask<SessionShown>("PATCH", sessionPath(sessionId), { body }), putRow);
}

export function rename(sessionId: string, title: string): Promise<Result<SessionShown>> {
  return patch(sessionId, { title });
}

export function pin(sessionId: string, pinned: boolean): Promise<Result<SessionShown>> {
  return patch(sessionId, { pinned });
}

/** Pins a message or, by its run, an answer of the open session. */
export function pinMessage(id: string, pinned: boolean): Promise<Result<unknown>> {
  const path = sessionPath(session.value?.id ?? "", `/context/${pinned ? "pin" : "unpin"}`);
  return ask("POST", path, { body: { id } });
}

export function archive(sessionId: string, archived: boolean): Promise<Result<SessionShown>> {
  return patch(sessionId, { archived });
}

/** Stops its runs and hides it; for a minute `undelete` takes that back. */
export async function remove(sessionId: string): Promise<Result<unknown>> {
  const result = await ask("DELETE", sessionPath(sessionId));
  if (result.ok) {
    dropRow(sessionId);
    if (session.value?.id === sessionId) {
      openStart();
    }
  }
  return result;
}

/** Deletes it for good, at once. */
export async function purge(sessionId: string): Promise<Result<unknown>> {
  const result = await ask("DELETE", `${sessionPath(sessionId)}?now=true`);
  if (result.ok) {
    dropRow(sessionId);
    if (session.value?.id === sessionId) {
      openStart();
    }
  }
  return result;
}

export function undelete(sessionId: string): Promise<Result<SessionShown>> {
  return takeRows(ask<SessionShown>("POST", sessionPath(sessionId, "/undelete"), { body: {} }), putRow);
}

/** Forks a session, up to a seq or whole, and opens the fork unless the person has moved to another chat. */
export async function fork(atSeq?: number, source = session.value?.id ?? ""): Promise<Result<unknown>> {
  const here = session.value;
  const asked = { body: { at_seq: atSeq }, headers: { "Idempotency-Key": newId("frk_") } };
  const result = await ask<{ id: string }>("POST", sessionPath(source, "/fork"), asked);
  if (result.ok && session.value === here) {
    open(result.value.id);
  }
  return result;
}

/** Where the session can be downloaded from. */
export function exportUrl(sessionId: string, format: "html" | "json" | "md"): string {
  return sessionPath(sessionId, `/export?format=${format}`);
}

const inOrder = newOrder();

export async function loadTargets(): Promise<Result<unknown>> {
  const isNews = inOrder();
  const result = await ask<{ data: readonly TargetState[] }>("GET", "/api/targets");
  if (result.ok && isNews()) {
    targets.value = result.value.data;
  }
  return result;
}

/** A stretch of the log as it is stored; `bytes` are the sizes of the stored bodies. */
export interface LogPage {
  readonly events: readonly LogRecord[];
  readonly bytes: readonly number[];
  readonly last_seq: number;
}

/** The events of a session after a seq, at most `limit` of them; the log has more while `last_seq` is not reached. */
export function logPage(sessionId: string, after: number, limit = 1000): Promise<Result<LogPage>> {
  return ask("GET", sessionPath(sessionId, `/events?after=${after}&limit=${limit}`));
}

export async function signOut(): Promise<Result<unknown>> {
  const result = await call("POST", "/api/sign-out", { body: {} });
  if (result.ok) {
    keepSecret("");
    forgetOutbox();
    forgetDrafts();
    location.assign(`${MOUNT}/`);
  }
  return result;
}
