/** What the panels about the server say: periods, sums and files of the usage, and the words for a target. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { BudgetShown, NodeShown, TargetState, UsageListed, UsageSummary } from "../src/bodies.ts";
import { areSeveral, leaseOf, sharedWith } from "../src/server_panels/node_words.ts";
import { waitMs } from "../src/server_panels/refreshed.ts";
import { callsOf, healthOf, learnedOf, patienceOf } from "../src/server_panels/target_words.ts";
import * as figures from "../src/server_panels/usage_figures.ts";

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

test("a target's health counts from when the server said so", () => {
  const target: TargetState = {
    ...{
      name: "main",
      model: "m",
      wire: "chat",
      context_window: 1000,
      gated_ms: 0,
      silent_ms: 0,
      health: "ok",
    },
  };
  assert.deepEqual(healthOf(target, NOW, NOW), {
    kind: "unknown",
    words: "Not used yet",
    why: "No calls since the server started.",
  });
  const gated = { ...target, health: "waiting" as const, gated_ms: 90_000 };
  assert.equal(healthOf(gated, NOW, NOW + 30_000).words, "Paused for 1:00");
  const silent = { ...target, health: "silent" as const, silent_ms: 30_000, silent_times: 3 };
  assert.match(healthOf(silent, NOW, NOW).why, /^3 calls in a row got no answer. Retry in 0:30/);
  assert.match(healthOf({ ...silent, silent_ms: 0 }, NOW, NOW).why, /The next call retries it/);
  assert.equal(callsOf({ ...target, active_calls: 2, waiting_calls: 1 }), "2 running, 1 waiting");
});

test("what was learned is said beside how long the program waits", () => {
  const target: TargetState = {
    ...{ name: "main", model: "m", wire: "chat", context_window: 1000, gated_ms: 0, silent_ms: 0 },
    patience: { connect_s: 10, first_event_s: 60, first_event_why: "learned", gap_s: 0 },
    learned: [
      { input_tokens_min: 0, calls: 1, first_event_p95_s: 20, waits_s: 60 },
      { input_tokens_min: 10_000, calls: 50, first_event_p95_s: 30, waits_s: 90 },
    ],
  };
  assert.equal(patienceOf(target), "1 min (learned) to the first token, no limit between chunks");
  assert.deepEqual(learnedOf(target), [
    "Small requests: 95% start within 20 s (last 1 call)",
    "From 10\u202f000 tokens: 95% start within 30 s (last 50 calls); limit 1 min 30 s",
  ]);
});

test("a server out of reach is asked less and less often", () => {
  assert.deepEqual(
    [0, 1, 2, 9].map((failures) => waitMs(3000, failures)),
    [3000, 6000, 12_000, 60_000],
  );
  assert.equal(waitMs(90_000, 3), 90_000);
});

test("servers are shown only where there can be several, with what a lease means", () => {
  const alone: NodeShown = { name: "", url: "", is_this: true, lease_left_s: null, homes: [], sessions: 0 };
  const shared = { ...alone, name: "web-1", lease_left_s: 3.25, homes: ["node:web-1", "volume:data"] };
  assert.equal(areSeveral([alone]), false);
  assert.equal(areSeveral([shared]), true);
  assert.equal(leaseOf(alone).words, "Not needed");
  assert.deepEqual(leaseOf(shared), { kind: "good", words: "Renewed; 3.3 s left" });
  assert.equal(leaseOf({ ...shared, lease_left_s: 0 }).kind, "silent");
  assert.equal(sharedWith(shared), "data");
});
