/** What the Automations panel says and sends, and how it signs a test delivery. */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import type { TriggerShown } from "../../src/bodies.ts";
import { signedHeaders } from "../../src/features/automations/signing.ts";
import * as words from "../../src/features/automations/words.ts";

const DELIVERY = { id: "d1", body: '{"a":"ü"}', atS: 1_700_000_000 };

function mac(key: string | Buffer, text: string, encoding: "hex" | "base64"): string {
  return createHmac("sha256", key).update(text).digest(encoding);
}

test("a test delivery is signed as each sender signs", async () => {
  const { id, body, atS } = DELIVERY;
  const github = await signedHeaders("github", "s", DELIVERY);
  assert.equal(github["x-hub-signature-256"], `sha256=${mac("s", body, "hex")}`);
  assert.notEqual(github["x-github-event"], "ping", "a ping starts nothing");
  const slack = await signedHeaders("slack", "s", DELIVERY);
  assert.equal(slack["x-slack-signature"], `v0=${mac("s", `v0:${atS}:${body}`, "hex")}`);
  const stripe = await signedHeaders("stripe", "s", DELIVERY);
  assert.equal(stripe["stripe-signature"], `t=${atS},v1=${mac("s", `${atS}.${body}`, "hex")}`);
  const key = Buffer.from("a key of some bytes");
  const standard = await signedHeaders("standard", `whsec_${key.toString("base64")}`, DELIVERY);
  assert.equal(standard["webhook-signature"], `v1,${mac(key, `${id}.${atS}.${body}`, "base64")}`);
  assert.equal((await signedHeaders("bearer", "s", DELIVERY)).authorization, "Bearer s");
});

test("only what belongs to the chosen kind is sent", () => {
  const draft = { ...words.newDraft("Europe/Berlin"), name: " n ", prompt: "p" };
  assert.deepEqual(words.bodyOf(draft), {
    name: "n",
    prompt: "p",
    cron: "0 8 * * 1-5",
    zone: "Europe/Berlin",
    missed: "once",
    overlap: "queue",
  });
  const hook = words.bodyOf({ ...draft, when: "webhook", approvals: "unattended" });
  assert.deepEqual(hook, {
    name: "n",
    prompt: "p",
    webhook: "github",
    overlap: "queue",
    approvals: "unattended",
  });
  assert.deepEqual(words.timesOf({ ...draft, when: "at" }), { at: null });
});

test("where results go is sent only if it was changed", () => {
  const draft = { ...words.newDraft("UTC"), deliver: " tg:1, https://a.example/x\ntg:1 " };
  assert.deepEqual(words.bodyOf(draft).deliver, ["tg:1", "https://a.example/x"]);
  const known = {
    name: "n",
    prompt: "p",
    kind: "cron",
    deliver: ["tg:1", "https://a.example/x"],
    times: 3,
    skills: ["a"],
  } as unknown as TriggerShown;
  const limits = { budget: { tokens: 9, cost_usd: 0.5, turns: 0, minutes: 0 }, model: "m", workspace: "/w" };
  const limited = { ...known, ...limits };
  const own = words.draftOf(limited, "UTC");
  assert.deepEqual([own.budget, own.model, own.workspace], ["0.5", "m", "/w"]);
  assert.ok(!("budget" in words.bodyOf(own, limited)));
  const freed = words.bodyOf({ ...own, budget: "", model: "", workspace: "" }, limited);
  assert.deepEqual([freed.model, freed.workspace, freed.budget], ["", "", { ...limits.budget, cost_usd: 0 }]);
  assert.ok(words.missingIn({ ...draft, budget: "much" }).length > 0);
  const changed = { ...words.draftOf(known, "UTC"), skills: "a, b", times: "", script: "df" };
  assert.deepEqual([changed.times, words.missingIn({ ...draft, times: "x" }).length > 0], ["", true]);
  const { skills, times, script } = words.bodyOf(changed, known);
  assert.deepEqual({ skills, times, script }, { skills: ["a", "b"], times: 0, script: "df" });
  assert.equal("deliver" in words.bodyOf(draft, known), false);
  assert.deepEqual(words.bodyOf({ ...draft, deliver: "" }, known).deliver, []);
  assert.equal(words.toggled("tg:1\ntg:2", "tg:1"), "tg:2");
  assert.equal(words.toggled("tg:2", "tg:1"), "tg:2\ntg:1");
});

test("chats that can be told are those in which someone who may talk has talked", () => {
  const ann = { user: "7", name: "Ann", role: "user" as const, since: 0 };
  const channel = { name: "tg", kind: "telegram", state: "connected" as const, since: 0, users: [ann] };
  const took = (chat: string, user: string) => ({ seq: 1, at: 1, type: "channel.update_taken", chat, user });
  assert.deepEqual(words.placesOf(channel, [took("-5", "7"), took("7", "7"), took("9", "9")]), [
    { place: "tg:7", words: "Ann in tg" },
    { place: "tg:-5", words: "Ann, chat -5 in tg" },
  ]);
  const discord = { ...channel, name: "dc", kind: "discord" };
  assert.deepEqual(words.placesOf(discord, [took("55", "7")]), [
    { place: "dc:55", words: "Ann, chat 55 in dc" },
  ]);
});

test("what is missing is said before anything is sent", () => {
  const draft = words.newDraft("UTC");
  assert.equal(words.missingIn(draft), "Enter a name.");
  assert.equal(words.missingIn({ ...draft, name: "n", prompt: " " }), "Enter a task for the agent.");
  assert.equal(words.missingIn({ ...draft, name: "n", prompt: "p", when: "at" }), "Choose a date and time.");
  assert.equal(words.missingIn({ ...draft, name: "n", prompt: "p" }), "");
});

test("an edited automation begins with what it has", () => {
  const atMs = new Date(2026, 2, 4, 5, 6).getTime();
  const trigger: TriggerShown = {
    id: "trg_1",
    name: "n",
    state: "gave_up",
    kind: "at",
    when: "once",
    prompt: "p",
    created_at: 0,
    at: atMs / 1000,
    approvals: "ask",
    network: true,
    missed: "ask",
    overlap: "skip",
    grace_s: 60,
    failures_max: 5,
    failures: 5,
  };
  const draft = words.draftOf(trigger, "UTC");
  assert.equal(draft.at, "2026-03-04T05:06");
  assert.deepEqual(words.timesOf(draft), { at: trigger.at });
  assert.deepEqual(words.stateOf(trigger), {
    kind: "silent",
    words: "Paused after 5 failed runs in a row",
  });
  const held = words.stateOf({ ...trigger, state: "active", held_until: 0 });
  assert.match(held.words, /^On hold until .*: the server's clock was ahead$/);
});

test("a run that stands for missed times says so", () => {
  const fire = { key: "k", due_at: 0, state: "ended", outcome: "completed" } as const;
  assert.equal(words.fireWords(fire), "Completed");
  assert.equal(words.fireWords({ ...fire, missed: 3 }), "Completed. Also covers 3 missed runs.");
  assert.equal(words.fireWords({ ...fire, state: "skipped", why: "paused" }), "Skipped: paused");
  assert.match(words.missedWords({ first_at: 0, last_at: 0, count: 1 }), /^Missed at /);
  assert.match(words.missedWords({ first_at: 0, last_at: 60, count: 9, is_more: true }), /more than 9 times/);
});

test("times of a trigger are in its time zone, which is named", () => {
  const at = Date.UTC(2026, 0, 5, 23, 30) / 1000;
  const missed = (zone: string): string => words.missedWords({ first_at: at, last_at: at, count: 1 }, zone);
  assert.match(missed("Asia/Tokyo"), /8:30.*\(Asia\/Tokyo\)$/);
  assert.match(missed("America/New_York"), /6:30.*\(America\/New_York\)$/);
  assert.equal(missed("No/Such_Zone"), missed(""));
});
