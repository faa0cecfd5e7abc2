/** The picture of a run's time and the rows of its log. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogRecord } from "../src/events.ts";
import { filtered, type Logged, rowsOf, textOfRow } from "../src/frame/log_rows.ts";
import { drawn, pictureOf, spread, ticksOf } from "../src/frame/stretches.ts";
import { timeline } from "../src/timeline.ts";

const RUN = { run_id: "run_1" };

function record(seq: number, atMs: number, fields: Record<string, unknown>): LogRecord {
  return { seq, at_ms: atMs, ...RUN, ...fields } as unknown as LogRecord;
}

const STALLED: readonly LogRecord[] = [
  record(1, 1_000, { type: "run.queued", message_id: "m" }),
  record(2, 1_010, { type: "attempt.started", call_id: "c", attempt_id: "a", target: "demo" }),
  record(3, 1_100, { type: "text.delta", segment: 0, text: "I was" }),
  record(4, 1_200, { type: "text.delta", segment: 0, text: " about to" }),
  record(5, 5_200, {
    type: "attempt.failed",
    attempt_id: "a",
    close_reason: "stream_idle_kill",
    failure: { kind: "stalled", text: "no events for 4 s" },
  }),
  record(6, 5_700, { type: "attempt.started", call_id: "c", attempt_id: "b", target: "demo" }),
  record(7, 5_800, { type: "text.delta", segment: 0, text: "Hello" }),
  record(8, 6_000, { type: "run.ended", outcome: "completed" }),
];

const log = (records: readonly LogRecord[]): Logged[] => records.map((one) => ({ record: one, bytes: 100 }));

test("the stretches lie end to end and their sums are those of the timeline", () => {
  const picture = pictureOf(STALLED);
  assert.equal(picture.totalMs, 5_000);
  let at = 0;
  for (const stretch of picture.stretches) {
    assert.equal(stretch.fromMs, at);
    at = stretch.toMs;
  }
  assert.equal(at, picture.totalMs);
  const told = Object.entries(timeline(STALLED).spent_ms).filter(([, lengthMs]) => lengthMs > 0);
  assert.deepEqual(Object.fromEntries(picture.sums), Object.fromEntries(told));
  assert.deepEqual(picture.sums[0], ["stalled", 4_000]);
});

test("a stall is marked where the watchdog ended it, a failed run where it ended", () => {
  const failed = [...STALLED.slice(0, 7), record(8, 6_000, { type: "run.ended", outcome: "failed" })];
  assert.deepEqual(pictureOf(failed).marks, [
    { kind: "stall", seq: 5, atMs: 4_200 },
    { kind: "fail", seq: 8, atMs: 5_000 },
  ]);
});

test("an attempt that a stop ended is no failed one", () => {
  const stopped = [
    ...STALLED.slice(0, 4),
    record(5, 1_300, { type: "stop.requested" }),
    record(6, 1_310, { type: "attempt.failed", attempt_id: "a", failure: { kind: "cancelled", text: "" } }),
    record(7, 1_320, { type: "run.ended", outcome: "cancelled" }),
  ];
  assert.deepEqual(
    pictureOf(stopped).marks.map((mark) => mark.kind),
    ["stop"],
  );
});

test("marks stand at their time, but none on top of another and none past the end", () => {
  const at = (...times: number[]) => times.map((atMs, seq) => ({ kind: "retry", seq, atMs }) as const);
  assert.deepEqual(spread(at(0, 500, 510, 1000), 1000, 6), [0, 50, 56, 100]);
  assert.deepEqual(spread(at(990, 995, 1000), 1000, 6), [88, 94, 100]);
  const many = spread(at(...Array.from({ length: 60 }, () => 500)), 1000, 6);
  assert.ok(many.every((place, nth) => place >= -0.001 && place <= 100 && place > (many[nth - 1] ?? -1)));
  assert.deepEqual(spread([], 0, 6), []);
});

test("a clock that was set back makes no negative time", () => {
  const picture = pictureOf([
    record(1, 2_000, { type: "run.queued" }),
    record(2, 500, { type: "run.started" }),
    record(3, 3_000, { type: "run.ended", outcome: "completed" }),
  ]);
  assert.equal(picture.totalMs, 1_000);
  assert.ok(picture.stretches.every((one) => one.toMs > one.fromMs));
});

test("ten thousand stretches are drawn as few, over the same length, each as what it mostly is", () => {
  const records = Array.from({ length: 10_000 }, (_, nth) => {
    const isFirstHalf = nth < 5_000;
    const atMs = 1_000 + nth * 10 + (nth % 2 === (isFirstHalf ? 0 : 1) ? 0 : 8);
    return record(nth + 1, atMs, { type: nth % 2 ? "text.delta" : "attempt.started", text: "x", segment: 0 });
  });
  const picture = pictureOf(records);
  const few = drawn(picture, 200);
  assert.ok(picture.stretches.length > 9_000);
  assert.ok(few.length <= 400);
  assert.equal(few[0]?.spent, "waiting");
  assert.equal(few.at(-1)?.spent, "streaming");
  assert.equal(few.at(-1)?.toMs, picture.totalMs);
});

test("no log at all is an empty picture", () => {
  assert.deepEqual(pictureOf([]), { totalMs: 0, stretches: [], marks: [], sums: [] });
  assert.deepEqual(ticksOf(0), []);
});

test("the axis has a few round numbers", () => {
  assert.deepEqual(ticksOf(5_000), [0, 1_000, 2_000, 3_000, 4_000]);
  assert.deepEqual(ticksOf(22_000), [0, 5_000, 10_000, 15_000]);
  for (const totalMs of [1, 37, 999, 61_000, 7_200_000, 9e9]) {
    const ticks = ticksOf(totalMs);
    assert.ok(ticks.length >= 1 && ticks.length <= 6, `${totalMs}`);
  }
});

test("deltas in a row stand under one row until it is opened", () => {
  const rows = rowsOf(log(STALLED), new Set());
  assert.deepEqual(
    rows.map((row) => [row.first.record.seq, row.count]),
    [
      [1, 1],
      [2, 1],
      [3, 2],
      [5, 1],
      [6, 1],
      [7, 1],
      [8, 1],
    ],
  );
  assert.equal(rows[2] && textOfRow(rows[2]), "I was about to");
  assert.equal(rows[2]?.bytes, 200);
  const opened = rowsOf(log(STALLED), new Set([3]));
  assert.deepEqual(
    opened.slice(2, 5).map((row) => [row.first.record.seq, row.count, row.depth]),
    [
      [3, 2, 0],
      [3, 1, 1],
      [4, 1, 1],
    ],
  );
});

test("a filter looks at types, words and the seq", () => {
  const seqs = (words: string): number[] => filtered(log(STALLED), words).map((one) => one.record.seq);
  assert.deepEqual(seqs(" Attempt. "), [2, 5, 6]);
  assert.deepEqual(seqs("no events"), [5]);
  assert.deepEqual(seqs("8"), [8]);
  assert.equal(seqs("").length, STALLED.length);
});
