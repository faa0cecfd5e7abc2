/** Approvals and questions: one life for both. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Action } from "../src/events.ts";
import { askLine } from "../src/talk/ask_words.ts";
import { type AskEvent, askOf, isAsk, newAsk, settleAsk, withdrawAsk } from "../src/view/asks.ts";

const about = { at_ms: 1, run_id: "r", tool_call_id: "t" };
const action = { tool: "shell", summary: "rm a" } as Action;
const ASKED = {
  approval: { ...about, type: "approval.asked", approval_id: "x", action },
  question: { ...about, type: "question.asked", question_id: "x", text: "Which?" },
} as const;
const EXPIRED = {
  approval: { at_ms: 2, run_id: "r", type: "approval.expired", approval_id: "x" },
  question: { at_ms: 2, run_id: "r", type: "question.expired", question_id: "x" },
} as const;
const WITHDRAWN = {
  approval: { at_ms: 2, run_id: "r", type: "approval.withdrawn", approval_id: "x", cause: "gone" },
  question: { at_ms: 2, run_id: "r", type: "question.withdrawn", question_id: "x", cause: "gone" },
} as const;
const ANSWERED = {
  approval: { at_ms: 2, run_id: "r", type: "approval.answered", approval_id: "x", choice: "deny" },
  question: { at_ms: 2, run_id: "r", type: "question.answered", question_id: "x", answer: "deny" },
} as const;

for (const kind of ["approval", "question"] as const) {
  const open = () => newAsk(ASKED[kind], 7);
  test(`every event of a ${kind} is about the same ask`, () => {
    const events: AskEvent[] = [ASKED[kind], EXPIRED[kind], WITHDRAWN[kind], ANSWERED[kind]];
    for (const event of events) {
      assert.ok(isAsk(event));
      assert.deepEqual(askOf(event), [kind, "x"]);
    }
  });
  test(`a ${kind} is closed once, by the first event that closes it`, () => {
    for (const [first, state, reason] of [
      [ANSWERED[kind], "answered", ""],
      [EXPIRED[kind], "expired", ""],
      [WITHDRAWN[kind], "withdrawn", "gone"],
    ] as const) {
      const ask = open();
      assert.equal(ask.state, "open");
      assert.ok(settleAsk(ask, first));
      assert.deepEqual([ask.state, ask.reason], [state, reason]);
      assert.ok(!settleAsk(ask, ANSWERED[kind]));
      assert.ok(!withdrawAsk(ask));
      assert.equal(ask.state, state);
    }
  });
  test(`a ${kind} that is open when its run ends is withdrawn`, () => {
    const ask = open();
    assert.ok(withdrawAsk(ask));
    assert.deepEqual([ask.state, ask.reason], ["withdrawn", "run_ended"]);
  });
}

test("a settled approval says for how long it holds and what it covers", () => {
  for (const [choice, width, words] of [
    ["once", "exact", "Allowed once"],
    ["session", "exact", "Allowed in this chat, exact match only"],
    ["session", "similar", "Allowed in this chat, including similar ones"],
    ["always", undefined, "Always allowed, exact match only"],
    ["deny", "exact", "Denied"],
  ] as const) {
    const ask = newAsk(ASKED.approval, 7);
    assert.ok(settleAsk(ask, { ...ANSWERED.approval, choice, ...(width ? { width } : {}) }));
    assert.equal(askLine(ask), words);
  }
});

test("a grant names its approval and is no ask", () => {
  const rule = { tool: "shell" };
  assert.ok(
    !isAsk({ type: "grant.added", at_ms: 1, grant_id: "g", approval_id: "x", rule, scope: "session" }),
  );
});
