/** Answers of a person to what runs ask. */

import { type Result, runPath, sessionPath, type Trouble } from "../api.ts";
import type { GrantShown, OpenApproval, OpenAsk } from "../bodies.ts";
import type { PlanStep, Width } from "../events.ts";
import { newAsk } from "../view/asks.ts";
import { type AskEntry, entryOf, type ShownEntry, type ToolEntry } from "../view/entries.ts";
import { ask } from "./asking.ts";

/** Answers exactly this ask: an approval with a choice, a question with text. */
export function answerAsk(
  card: AskEntry,
  answer: string,
  reason = "",
  width?: Width,
  steps?: readonly PlanStep[],
): Promise<Result<unknown>> {
  const more = { ...(reason ? { reason } : {}), ...(steps ? { steps } : {}) };
  const [path, body] =
    card.ask === "approval"
      ? ["/approval", { approval_id: card.ask_id, choice: answer, width, ...more }]
      : [`/question/${encodeURIComponent(card.ask_id)}`, { answer }];
  return ask("POST", runPath(card.run_id, path), { body });
}

/** What waits for a person in all sessions. */
export async function waitingAsks(): Promise<Result<readonly OpenAsk[]>> {
  const result = await ask<{ data: readonly OpenAsk[] }>("GET", "/v1/approvals");
  return result.ok ? { ok: true, value: result.value.data } : result;
}

/** An approval as its chat shows it: the card, and what the tool is given. */
export interface ExactAsk {
  readonly card: AskEntry;
  readonly args: ToolEntry["args"];
}

const NEWEST = 200;
const NOT_FOUND: Trouble = {
  message: "Open the chat to see the exact action. It isn't among the newest entries.",
  code: "not_found",
  status: 0,
  param: null,
};

/** The exact action of an approval, from the log of its chat; the answer is for this very id. */
export async function exactAsk({ session_id, approval_id }: OpenApproval): Promise<Result<ExactAsk>> {
  const path = sessionPath(session_id, `/messages?limit=${NEWEST}`);
  const result = await ask<{ data: readonly ShownEntry[] }>("GET", path);
  if (!result.ok) return result;
  const entries = result.value.data;
  const card = entries.find((entry) => entry.kind === "ask" && entry.ask_id === approval_id);
  if (card?.kind !== "ask") return { ok: false, trouble: NOT_FOUND };
  const { run_id, tool_call_id } = card;
  const tool = entries.find(
    (entry) => entry.kind === "tool" && entry.run_id === run_id && entry.tool_call_id === tool_call_id,
  );
  if (tool?.kind !== "tool") return { ok: false, trouble: NOT_FOUND };
  return { ok: true, value: { card: entryOf(card), args: tool.args } };
}

/** The card of a question that another session asks. */
export function questionCard(asked: Extract<OpenAsk, { kind: "question" }>): AskEntry {
  const { asked_at, expires_at, question: text, question_id, run_id, tool_call_id, choices } = asked;
  const times = { at_ms: asked_at * 1000, expires_at_ms: (expires_at ?? 0) * 1000 };
  return newAsk({ type: "question.asked", ...times, run_id, tool_call_id, question_id, text, choices }, 0);
}

/** What was allowed always, or in any session. */
export async function storedRules(): Promise<Result<readonly GrantShown[]>> {
  const path = "/api/approvals/rules?sessions=all&limit=200";
  const result = await ask<{ data: readonly GrantShown[] }>("GET", path);
  return result.ok ? { ok: true, value: result.value.data } : result;
}

/** Takes such a rule back: what it allowed is asked about again. */
export function revoke({ grant_id, session_id }: GrantShown): Promise<Result<unknown>> {
  const query = session_id ? `?session_id=${encodeURIComponent(session_id)}` : "";
  return ask("DELETE", `/api/approvals/rules/${encodeURIComponent(grant_id)}${query}`);
}
