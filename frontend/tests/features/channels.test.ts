/** What the Channels panel says about channels, people and what became of messages. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ChannelLogEntry, ChannelShown } from "../../src/bodies.ts";
import {
  becameOf,
  chatsIn,
  howOf,
  linesOf,
  pairedIn,
  platformOf,
  stateOf,
  undeliveredOf,
  waitingOf,
} from "../../src/features/channels/words.ts";

function entry(seq: number, type: string, more: Partial<ChannelLogEntry> = {}): ChannelLogEntry {
  return { seq, at: seq, type, ...more };
}

const CHANNEL: ChannelShown = { name: "tg", kind: "telegram", state: "connected", since: 0 };

test("a delivery is one line with what became of it last, newest first", () => {
  const about = { delivery: "r/answer/0", chat: "42" };
  const entries = [
    entry(1, "channel.update_taken", { what: "message", chat: "42", user: "42" }),
    entry(2, "delivery.intended", about),
    entry(3, "delivery.attempted", { ...about, what: "attempt 1" }),
    entry(4, "delivery.unknown", { ...about, what: "the connection was cut; it is sent again, marked" }),
    entry(5, "channel.update_taken", { what: "ignored: it was too late", chat: "42" }),
  ];
  assert.deepEqual(
    linesOf(entries).map(({ words, kind, why }) => [words, kind, why]),
    [
      ["Ignored", "waiting", "it was too late"],
      ["Not confirmed", "silent", "the connection was cut; it is sent again, marked"],
      ["Received: a message", "good", ""],
    ],
  );
  const confirmed = [...entries, entry(6, "delivery.confirmed", { ...about, what: "message 9" })];
  assert.equal(becameOf(confirmed, "r/answer/0")?.words, "Delivered");
  assert.equal(becameOf(confirmed, "other"), null);
  assert.deepEqual(chatsIn(confirmed), ["42"]);
});

test("events that say nothing to people have no line, and a failed connection is marked", () => {
  const found = linesOf([
    entry(1, "session.created"),
    entry(2, "channel.message_settled"),
    entry(3, "channel.failed", { what: "Unauthorized" }),
  ]);
  assert.deepEqual(
    found.map(({ words, kind }) => [words, kind]),
    [["Connection failed", "silent"]],
  );
});

test("what waits and what was lost is counted in words", () => {
  const troubled = { ...CHANNEL, awaited: 1, rejected: 2, given_up: 1 };
  assert.deepEqual([waitingOf(CHANNEL), undeliveredOf(CHANNEL)], ["Nothing", ""]);
  assert.equal(waitingOf(troubled), "1 unanswered message");
  assert.equal(
    undeliveredOf(troubled),
    "2 messages rejected by Telegram, 1 message possibly lost. See the log.",
  );
  assert.match(undeliveredOf({ ...troubled, kind: "webhooks" }), /rejected by the receiver/);
});

test("who pairs again after being revoked is someone new, and who is allowed by id is not paired", () => {
  const paired = { user: "7", name: "Ann", role: "approver" as const, since: 5, how: "code" as const };
  const before = pairedIn({ ...CHANNEL, users: [paired, { ...paired, user: "8", how: "allowed" }] });
  assert.deepEqual([...before.values()], ["Ann"]);
  const again = pairedIn({ ...CHANNEL, users: [{ ...paired, name: "", since: 6 }] });
  assert.deepEqual(
    [...again].filter(([key]) => !before.has(key)).map(([, name]) => name),
    ["7"],
  );
});

test("a channel says its platform and state, and a person how they came to it", () => {
  assert.equal(platformOf({ ...CHANNEL, account: "bot" }), "Telegram · bot");
  assert.equal(stateOf({ ...CHANNEL, state: "failed" }).kind, "silent");
  assert.equal(stateOf({ ...CHANNEL, kind: "webhooks" }).words, "Ready");
  const person = { user: "1", name: "", role: "user" as const, since: 0 };
  assert.equal(howOf({ ...person, how: "code" }), "paired with a code");
  assert.equal(howOf({ ...person, how: "allowed", by: "laptop" }), "allowed by laptop");
});
