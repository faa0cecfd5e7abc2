/** The usage panel: periods, sums, budgets and the file for a spreadsheet. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { BudgetShown, UsageListed, UsageSummary } from "../../src/bodies.ts";
import * as figures from "../../src/features/usage_reports/usage_figures.ts";

const NOW = Date.parse("2026-03-01T00:30:00Z");

function row(key: string, more: Partial<UsageListed> = {}): UsageListed {
  const none = { runs: 1, relayed_calls: 0, cached_tokens: 0, unpriced_calls: 0 };
  return { key, label: key, ...none, input_tokens: 10, output_tokens: 5, cost_usd: 0.5, ...more };
}

function summary(by: UsageSummary["by"], rows: readonly UsageListed[]): UsageSummary {
  return { by, from: "2026-02-27", to: "2026-03-01", rows, totals: row(""), budgets: [] };
}

test("a period is counted in days of UTC, today included", () => {
  const custom = { from: "2026-01-01", to: "2026-01-02" };
  assert.deepEqual(figures.daysOf("today", custom, NOW), { from: "2026-03-01", to: "2026-03-01" });
  assert.deepEqual(figures.daysOf("week", custom, NOW), { from: "2026-02-23", to: "2026-03-01" });
  assert.deepEqual(figures.daysOf("custom", custom, NOW), custom);
  assert.equal(figures.troubleWith(custom), "");
  assert.match(figures.troubleWith({ from: "2026-01-02", to: "2026-01-01" }), /after the last/);
  assert.match(figures.troubleWith({ from: "", to: "2026-01-01" }), /Choose/);
});

test("a day without use has a bar of no height, and other groups have their largest first", () => {
  const days = summary("day", [row("2026-02-27"), row("2026-03-01", { cost_usd: 2 })]);
  assert.deepEqual(
    figures.barsOf(days, "cost").map(({ key, value }) => [key, value]),
    [
      ["2026-02-27", 0.5],
      ["2026-02-28", 0],
      ["2026-03-01", 2],
    ],
  );
  const keys = summary("key", [row("a"), row("b", { cost_usd: 9 })]);
  assert.deepEqual(
    figures.sorted(keys, "cost").map(({ key }) => key),
    ["b", "a"],
  );
});

test("a price that isn't known is not shown as free", () => {
  assert.equal(figures.costWords(row("a", { cost_usd: null, unpriced_calls: 2 })), "unknown");
  assert.equal(figures.costWords(row("a", { unpriced_calls: 2 })), "≥ $0.50");
  assert.equal(figures.costWords(row("a", { cost_usd: 0 })), "$0.00");
});

test("the file for a spreadsheet has every row, and no text in it becomes a formula", () => {
  const text = figures.csvOf(
    summary("session", [row("s1", { label: '=1+1, "x"', cost_usd: null, unpriced_calls: 1 })]),
  );
  const [head, line, end] = text.split("\r\n");
  assert.equal(
    head,
    "session,label,runs,relayed_calls,input_tokens,cached_tokens,output_tokens,cost_usd,unpriced_calls",
  );
  assert.equal(line, `s1,"'=1+1, ""x""",1,0,10,0,5,,1`);
  assert.equal(end, "");
});

test("a budget is as full as the limit that is nearer", () => {
  const budget: BudgetShown = {
    ...{ key: "ci", label: "ci", period: "day", resets_at: 0 },
    ...{ limit_usd: 10, limit_tokens: 1000, used_usd: 4, used_tokens: 2000 },
  };
  assert.equal(figures.fullness(budget), 1);
  assert.equal(figures.leftOf(budget), "$6.00 of $10.00, 0 of 1\u202f000 tokens left");
  assert.equal(figures.fullness({ ...budget, limit_tokens: null }), 0.4);
});
