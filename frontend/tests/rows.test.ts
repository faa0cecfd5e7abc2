/** The rows of a transcript: what stands together, and that a row which did not change is the same object. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { askLine } from "../src/talk/ask_words.ts";
import { answerOf, isBusy, rowAt, rowsOf, spentMs, type Work } from "../src/talk/rows.ts";
import { standingOf, targetLine, toolIcon } from "../src/talk/tool_words.ts";
import { type AskEntry, type Entry, entryOf, type ShownEntry, type ToolEntry } from "../src/view/entries.ts";

let seq = 0;

function made(kind: Entry["kind"], more: Record<string, unknown> = {}): Entry {
  seq += 1;
  const base = {
    kind,
    seq,
    at_ms: 1000 * seq,
    run_id: "run_1",
    attempt_id: "a",
    segment: seq,
    tool_call_id: `t${seq}`,
    ask_id: `q${seq}`,
  };
  const message = { client_id: `c${seq}`, message_id: `m${seq}` };
  return entryOf({
    ...base,
    message,
    text: "",
    done: true,
    state: "ended",
    ms: 0,
    ...more,
  } as unknown as ShownEntry);
}

const kinds = (entries: readonly Entry[]) =>
  rowsOf(entries, []).map((row) => (row.kind === "activity" ? `activity:${row.work.length}` : row.kind));

test("work between two texts is one row", () => {
  const entries = [
    made("person"),
    made("thinking"),
    made("tool"),
    made("tool"),
    made("text"),
    made("tool"),
    made("text"),
    made("ending"),
  ];
  assert.deepEqual(kinds(entries), ["person", "activity:3", "text", "activity:1", "text", "ending"]);
});

test("work of two runs is two rows", () => {
  assert.deepEqual(kinds([made("tool"), made("tool", { run_id: "run_2" })]), ["activity:1", "activity:1"]);
});

test("a row that did not change is the same object, and so are all rows", () => {
  const entries = [made("person"), made("tool"), made("text")];
  const before = rowsOf(entries, []);
  assert.equal(rowsOf([...entries], before), before);
  const after = rowsOf([...entries, made("tool"), made("ending")], before);
  assert.equal(after[0], before[0]);
  assert.equal(after[1], before[1]);
  assert.equal(after.length, 5);
});

test("a row of work that grew is another object under the same key", () => {
  const tool = made("tool");
  const before = rowsOf([tool], []);
  const after = rowsOf([tool, made("tool")], before);
  assert.notEqual(after[0], before[0]);
  assert.equal(after[0]?.key, before[0]?.key);
});

test("older entries put in front leave the rows behind them as they are", () => {
  const newer = [made("person"), made("text")];
  const before = rowsOf(newer, []);
  const after = rowsOf([made("person"), made("text"), ...newer], before);
  assert.equal(after[2], before[0]);
});

test("work takes what its tools took, and what one under way has taken until now", () => {
  const done = [made("tool", { at_ms: 1000, ms: 500 }), made("tool", { at_ms: 2000, ms: 3000 })] as Work[];
  assert.equal(spentMs(done, 99_000), 3500);
  assert.equal(isBusy(done), false);
  const running = [...done, made("tool", { at_ms: 6000, started_ms: 6000, state: "started" })] as Work[];
  assert.equal(spentMs(running, 9000), 6500);
  assert.equal(isBusy(running), true);
});

test("tools that ran side by side took no longer than the stretch of them", () => {
  const beside = [made("tool", { at_ms: 1000, ms: 5000 }), made("tool", { at_ms: 1000, ms: 4000 })] as Work[];
  assert.equal(spentMs(beside, 99_000), 5000);
});

test("the time in which a person was asked is no time of the work, on a page that saw it or not", () => {
  const waits = [made("tool", { at_ms: 1000, state: "asked" }), made("ask", { at_ms: 1000 })] as Work[];
  assert.equal(spentMs(waits, 41_000), 0);
  const seen = [made("tool", { at_ms: 1000, started_ms: 41_000, ms: 20 })] as Work[];
  const loaded = [made("tool", { at_ms: 1000, ms: 20 })] as Work[];
  assert.equal(spentMs(seen, 99_000), 20);
  assert.equal(spentMs(loaded, 99_000), 20);
});

test("the answer is the text since the last tool, or the last text before it", () => {
  const tool = made("tool");
  assert.equal(
    answerOf(
      [made("text", { text: "a" }), tool, made("text", { text: "b" }), made("text", { text: "c" })],
      "run_1",
    ),
    "bc",
  );
  assert.equal(answerOf([made("text", { text: "a" }), tool], "run_1"), "a");
  assert.equal(answerOf([made("text", { text: "a" })], "run_2"), "");
});

test("a tool is told by its most telling argument, in one harmless line", () => {
  assert.equal(targetLine({ args: { cwd: "/x", command: "ls\n-l" }, bad_args: "" }), "ls -l");
  assert.equal(targetLine({ args: { depth: 3 }, bad_args: "" }), "3");
  assert.equal(targetLine({ args: {}, bad_args: "{no json" }), "{no json");
  assert.ok(targetLine({ args: { command: "x".repeat(5000) }, bad_args: "" }).length < 250);
  assert.ok(!targetLine({ args: { command: "a\u202eb" }, bad_args: "" }).includes("\u202e"));
  assert.equal(toolIcon("shell"), "terminal");
  assert.equal(toolIcon("constructor"), "tool");
});

test("how a tool call stands is said truthfully", () => {
  const tool = (more: Record<string, unknown>) => made("tool", more) as ToolEntry;
  assert.equal(standingOf(tool({ ok: true, ending: "finished" }), undefined).words, "Done");
  assert.equal(standingOf(tool({ ok: false, ending: "finished" }), undefined).words, "Failed");
  assert.equal(standingOf(tool({ ok: false, ending: "unknown" }), undefined).words, "Result unknown");
  const open = made("ask", { ask: "approval", state: "open" }) as AskEntry;
  assert.equal(standingOf(tool({ state: "asked" }), open).words, "Waiting for you");
  assert.equal(
    askLine({ ...open, state: "answered", answer: "deny", reason: "too risky" }),
    "Denied: too risky",
  );
  assert.equal(askLine({ ...open, state: "expired" }), "No one answered in time");
});

test("a question stands by itself, in place of its tool call", () => {
  const tool = made("tool", { tool_call_id: "t" });
  const question = made("ask", { ask: "question", tool_call_id: "t" });
  assert.deepEqual(kinds([tool]), ["activity:1"]);
  assert.deepEqual(kinds([tool, question, made("text")]), ["ask", "text"]);
  assert.deepEqual(kinds([tool, made("ask", { ask: "approval", tool_call_id: "t" })]), ["activity:2"]);
});

test("a run whose message was taken back before it began leaves no row", () => {
  const entries = [made("text"), made("ending", { cause: "removed", run_id: "run_2" }), made("tool")];
  assert.deepEqual(kinds(entries), ["text", "activity:1"]);
  assert.deepEqual(kinds([made("ending", { cause: "user_stop" })]), ["ending"]);
});

test("a hit of a search leads to the row that holds it", () => {
  const said = (at: number, text: string) => ({
    message: { client_id: text, message_id: text, seq: at, text },
  });
  const entries = [
    made("person", { seq: 110, ...said(101, "which marmalade?") }),
    made("text", { seq: 115, text: "the bitter marmalade" }),
    made("ask", { seq: 125, ask: "question", text: "Which jar?" }),
    made("text", { seq: 130, text: "this one" }),
    // taken up long after it was sent, and written anew at 118
    made("person", { seq: 140, ...said(112, "and honey?") }),
  ];
  const rows = rowsOf(entries, []);
  const found = (at: number, passage = "") =>
    entries.findIndex((entry) => entry.key === rowAt(rows, { seq: at, passage })?.key);
  assert.equal(found(101), 0, "a message, by the event that accepted it");
  assert.equal(found(119, "…bitter marmalade"), 1, "a text, by the event that completed it");
  assert.equal(found(118, "and honey…"), 4, "a message that was edited while it waited");
  assert.equal(found(125), 2, "a question");
  assert.equal(found(139), 3, "without a passage, the text before");
  assert.equal(found(50), -1, "what is no longer there is not found");
  assert.equal(found(139, "rewritten since"), -1, "nor does another text stand for it");
});
