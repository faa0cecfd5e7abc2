/** Asks: what a run asks a person. An approval and a question are one thing here; their events differ in names only. */

import type * as e from "../events.ts";
import { type AskEntry, entryOf } from "./entries.ts";

export type AskKind = AskEntry["ask"];
type Asked = e.ApprovalAsked | e.QuestionAsked;
export type AskEvent =
  | Asked
  | e.ApprovalAnswered
  | e.ApprovalExpired
  | e.ApprovalWithdrawn
  | e.QuestionAnswered
  | e.QuestionExpired
  | e.QuestionWithdrawn;

const ALL_CHOICES: readonly e.Choice[] = ["once", "session", "always", "deny"];

export function isAsk(event: e.AnyEvent): event is AskEvent {
  return /^(approval|question)\./.test(event.type);
}

export function askOf(event: AskEvent): readonly [kind: AskKind, id: string] {
  return "approval_id" in event ? ["approval", event.approval_id] : ["question", event.question_id];
}

/** The card that the event brings. */
export function newAsk(event: Asked, seq: number): AskEntry {
  const [ask, ask_id] = askOf(event);
  const { at_ms, run_id, tool_call_id, choices, expires_at_ms = 0 } = event;
  const about =
    "action" in event
      ? { action: event.action, text: "", findings: event.findings ?? [], choices: choices ?? ALL_CHOICES }
      : { action: null, text: event.text, findings: [], choices: choices ?? [] };
  const { headline = "", offers = [], once_because = "" } = "action" in event ? event : {};
  const open = { state: "open", answer: "", by: "", reason: "", width: "exact" } as const;
  const placed = { kind: "ask", seq, at_ms, run_id, tool_call_id, ask, ask_id } as const;
  return entryOf({ ...placed, ...about, expires_at_ms, headline, offers, once_because, ...open });
}

/** Closes the ask as the event says; a closed one never changes. */
export function settleAsk(ask: AskEntry, event: Exclude<AskEvent, Asked>): boolean {
  if ("cause" in event) return close(ask, { state: "withdrawn", reason: event.cause });
  if ("choice" in event)
    return close(ask, {
      state: "answered",
      answer: event.choice,
      by: event.by ?? "",
      reason: event.reason ?? "",
      width: event.width ?? "exact",
    });
  if ("answer" in event) {
    const { answer, by = "", reason = "" } = event;
    return close(ask, { state: "answered", answer, by, reason });
  }
  return close(ask, { state: "expired" });
}

/** Nobody can answer what an ended run asked. */
export function withdrawAsk(ask: AskEntry): boolean {
  return close(ask, { state: "withdrawn", reason: "run_ended" });
}

function close(
  ask: AskEntry,
  how: Partial<Pick<AskEntry, "state" | "answer" | "by" | "reason" | "width">>,
): boolean {
  const wasOpen = ask.state === "open";
  if (wasOpen) Object.assign(ask, how);
  return wasOpen;
}
