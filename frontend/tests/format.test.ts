/** How times, sizes and money are written. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as format from "../src/format.ts";

test("a length has two units at most, and never sixty seconds", () => {
  const lengths: [number, string][] = [
    [0, "0 ms"],
    [0.4, "0 ms"],
    [12.4, "12 ms"],
    [999.4, "999 ms"],
    [1_000, "1.0 s"],
    [9_949, "9.9 s"],
    [9_950, "10 s"],
    [59_499, "59 s"],
    [59_500, "1 min"],
    [83_000, "1 min 23 s"],
    [3_600_000, "1 h"],
    [3_599_600, "1 h"],
    [5_400_000, "1 h 30 min"],
    [90_000_000, "1 d 1 h"],
  ];
  for (const [lengthMs, words] of lengths) assert.equal(format.duration(lengthMs), words);
});

test("a size has the unit that leaves the fewest digits", () => {
  assert.deepEqual([0, 999, 1_000, 12_345, 999_499, 999_500, 2_500_000].map(format.bytes), [
    "0 B",
    "999 B",
    "1.0 kB",
    "12 kB",
    "999 kB",
    "1.0 MB",
    "2.5 MB",
  ]);
});

test("money that is there is never shown as nothing", () => {
  assert.deepEqual([0, 0.00001, 0.0042, 0.42, 12, 12_345].map(format.money), [
    "$0.00",
    "< $0.0001",
    "$0.0042",
    "$0.42",
    "$12.00",
    "$12\u202f345",
  ]);
  assert.equal(format.percent(1, 1000), "< 1 %");
  assert.equal(format.percent(0, 1000), "0 %");
  assert.equal(format.percent(1, 0), "0 %");
});

test("a countdown ends at zero", () => {
  assert.deepEqual([61_000, 59_001, 1, 0, -5].map(format.countdown), [
    "1:01",
    "1:00",
    "0:01",
    "0:00",
    "0:00",
  ]);
});

test("days are those of the calendar, not of twenty-four hours", () => {
  const now = new Date(2026, 4, 10, 0, 30).getTime();
  const hours = (count: number): number => now - count * 3_600_000;
  assert.equal(format.dayGroup(hours(0.25), now), "Today");
  assert.equal(format.dayGroup(hours(1), now), "Yesterday");
  assert.equal(format.dayGroup(hours(30), now), "Last 7 days");
  assert.equal(format.dayGroup(hours(24 * 9), now), "Older");
});

test("how long ago is said in few letters, and the future is now", () => {
  const now = new Date(2026, 4, 10, 12).getTime();
  const said = [-5, 59, 60, 3_599, 7_200, 2 * 86_400].map((seconds) => format.ago(now - seconds * 1000, now));
  assert.deepEqual(said, ["now", "now", "1 min", "59 min", "2 h", "2 d"]);
});
