/** Answers of a person to what runs ask. */

import { type Result, runPath } from "../api.ts";
import type { GrantShown, OpenAsk } from "../bodies.ts";
import type { Width } from "../events.ts";
import type { AskEntry } from "../view/entries.ts";
import { ask } from "./asking.ts";

/** Answers exactly this ask: an approval with a choice, a question with text. */
export function answerAsk(
  card: AskEntry,
  answer: string,
  reason = "",
  width?: Width,
): Promise<Result<unknown>> {
  const [path, body] =
    card.ask === "approval"
      ? ["/approval", { approval_id: card.ask_id, choice: answer, width, ...(reason ? { reason } : {}) }]
      : [`/question/${encodeURIComponent(card.ask_id)}`, { answer }];
  return ask("POST", runPath(card.run_id, path), { body });
}

/** What waits for a person in all sessions. */
export async function waitingAsks(): Promise<Result<readonly OpenAsk[]>> {
  const result = await ask<{ data: readonly OpenAsk[] }>("GET", "/v1/approvals");
  return result.ok ? { ok: true, value: result.value.data } : result;
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
