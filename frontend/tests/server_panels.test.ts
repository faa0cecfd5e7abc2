/** The panels about the server: the words for targets and nodes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { NodeShown, TargetState } from "../src/bodies.ts";
import { areSeveral, leaseOf, sharedWith } from "../src/server_panels/node_words.ts";
import { waitMs } from "../src/server_panels/refreshed.ts";
import { callsOf, healthOf, learnedOf, patienceOf } from "../src/server_panels/target_words.ts";

const NOW = Date.parse("2026-03-01T00:30:00Z");

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
