/** The page's state: what an event, a request and a broken line do to what components see. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import type { SessionShown } from "../src/bodies.ts";
import type { LogRecord } from "../src/events.ts";
import { rename, signOut } from "../src/state/actions.ts";
import { saveDraftNow, writeDraft } from "../src/state/drafts.ts";
import { dropRow, loadSessions, ordered, putRow, refreshSessions, showArchived } from "../src/state/list.ts";
import { Opened } from "../src/state/opened.ts";
import { outbox, readOutbox } from "../src/state/outbox.ts";
import { queue, resend, send, sendLeftovers } from "../src/state/sending.ts";
import { readSettings, settings } from "../src/state/settings.ts";
import { archivedShown, session, sessions, sessionsMore } from "../src/state/signals.ts";
import { newVersion } from "../src/state/versions.ts";
import { newActivity } from "../src/view/activity.ts";
import { newRun } from "../src/view/runs.ts";
import { type Answer, answers, requests, settled, storage } from "./browser.ts";
import { logOf } from "./golden.ts";

beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout"] });
  storage.clear();
  answers.clear();
  requests.length = 0;
  outbox.value = [];
  session.value = null;
  sessions.value = [];
  archivedShown.value = false;
});

afterEach(() => {
  // what waits to be sent again would be sent in the middle of the next test
  outbox.value = [];
  mock.timers.runAll();
  mock.timers.reset();
});

function opened(name: string, records: number): { here: Opened; rest: LogRecord[] } {
  const log = logOf(name);
  const here = new Opened("ses_1");
  for (const record of log.slice(0, records)) {
    assert.ok(here.take(record));
  }
  here.show();
  return { here, rest: log.slice(records) };
}

test("a growing text changes its own version and not the list", () => {
  const log = logOf("text_and_tools");
  const at = log.findIndex(
    (record, index) => record.type === "text.delta" && log[index - 1]?.type === "text.delta",
  );
  assert.ok(at > 0);
  const { here, rest } = opened("text_and_tools", at);
  const list = here.entries.value;
  const entry = list.at(-1);
  assert.ok(entry?.kind === "text" && rest[0]);
  const [version, text] = [entry.version.value, entry.text];
  here.take(rest[0]);
  assert.equal(entry.version.value, version, "until it is shown");
  here.show();
  assert.equal(entry.version.value, version + 1);
  assert.notEqual(entry.text, text);
  assert.equal(here.entries.value, list);
});

test("an event is taken only if it is the next one, and one that came before changes nothing", () => {
  const { here, rest } = opened("approval", 5);
  const [next, afterNext] = rest;
  assert.ok(next && afterNext);
  assert.equal(here.take(afterNext), false);
  assert.equal(here.lastSeq.value, 5);
  assert.ok(here.take(next));
  assert.ok(here.take(next));
  here.show();
  assert.equal(here.lastSeq.value, 6);
});

test("a run that nobody carries on stays so when someone writes to it, until an event of its own comes", () => {
  const { here, rest } = opened("approval", 5);
  const [next] = rest;
  const run = [...here.runs.value.keys()][0] ?? "";
  assert.ok(next && run);
  here.remark({ data: [], next_before: null, last_seq: 4, runs: [], marks: { [run]: "old" }, is_away: true });
  assert.equal(here.isAway.value, false, "more has happened since");
  here.remark({
    data: [],
    next_before: null,
    last_seq: 5,
    runs: [],
    marks: { [run]: "gone" },
    is_away: true,
  });
  const said = { type: "message.accepted", at_ms: 1, message_id: "m9", text: "hello?", run_id: run } as const;
  assert.ok(here.take({ ...said, seq: 6 }));
  assert.deepEqual([here.marks.value, here.isAway.value], [{ [run]: "gone" }, true]);
  assert.ok(here.take({ type: "run.resumed", at_ms: 2, run_id: run, after: "crash", seq: 7 } as LogRecord));
  assert.deepEqual([here.marks.value, here.isAway.value], [{}, false]);
});

test("another log under the same id is noticed by its epoch", () => {
  const { here } = opened("approval", 5);
  const first = logOf("approval")[0];
  assert.ok(first?.type === "session.created");
  assert.ok(here.take(first));
  assert.equal(here.take({ ...first, epoch: "another" }), false);
});

test("an open approval is shown until it is answered", () => {
  const log = logOf("approval");
  const asked = log.findIndex((record) => record.type === "approval.asked");
  const answered = log.findIndex((record) => record.type === "approval.answered");
  const { here, rest } = opened("approval", asked + 1);
  assert.equal(here.openAsks.value.length, 1);
  assert.equal(here.currentRun.value?.phase, "running");
  for (const record of rest.slice(0, answered - asked)) {
    here.take(record);
  }
  here.show();
  assert.equal(here.openAsks.value.length, 0);
});

test("a message that cannot be sent is kept in the browser and sent again under the same id", async () => {
  const here = new Opened("ses_1");
  session.value = here;
  const result = await send("precious words");
  assert.ok(!result.ok);
  const [kept] = here.pending.value;
  assert.equal(kept?.state, "failed");
  const key = `holdfast.outbox.${kept?.client_id}`;
  assert.match(storage.get(key) ?? "", /precious words/);
  storage.set("holdfast.outbox.broken", '{"text": 7}');

  outbox.value = [];
  assert.equal(readOutbox()[0]?.text, "precious words", "also by the next page");
  answers.set("POST /v1/runs", () => ({
    status: 202,
    body: { run_id: "r", session_id: "ses_1", message_id: "m" },
  }));
  await sendLeftovers();
  const posts = requests.filter((one) => one.what === "POST /v1/runs");
  const [first, second] = posts.map((one) => one.headers.get("Idempotency-Key"));
  assert.equal(posts.length, 2);
  assert.equal(first, second);
  assert.deepEqual(posts[0]?.body, posts[1]?.body);
  assert.equal(here.pending.value[0]?.state, "sent");
  assert.equal(storage.has(key), false, "the server has it");
});

test("a message that the server can't take yet is sent again by itself, though the stream never broke", async () => {
  session.value = new Opened("ses_1");
  answers.set("POST /v1/runs", () => ({ status: 503, body: { error: { message: "The store is away" } } }));
  await send("words");
  mock.timers.tick(2000);
  await settled();
  assert.equal(requests.length, 2);
  answers.set("POST /v1/runs", () => ({
    status: 202,
    body: { run_id: "r", session_id: "ses_1", message_id: "m" },
  }));
  mock.timers.tick(4000);
  await settled();
  assert.equal(outbox.value[0]?.state, "sent");
  mock.timers.tick(60_000);
  await settled();
  assert.equal(requests.length, 3, "once it is there, no more");
});

test("a message that the server refuses is not sent again by itself, and its words are shown", async () => {
  session.value = new Opened("ses_1");
  const envelope = {
    error: { message: "The session is deleted", code: "session_deleted", param: "session_id" },
  };
  answers.set("POST /v1/runs", () => ({ status: 409, body: envelope }));
  await send("words");
  await sendLeftovers();
  assert.equal(requests.length, 1);
  const [one] = outbox.value;
  assert.equal(one?.trouble?.message, "The session is deleted");
  await resend(one?.client_id ?? "");
  assert.equal(requests.length, 2);
});

const DONE: Answer = { body: {} };

test("what was begun in a session goes on there, whichever one is opened meanwhile", async () => {
  const log = logOf("approval");
  const asked = log.findIndex((record) => record.type === "approval.asked");
  const { here } = opened("approval", asked + 1);
  const [person] = here.entries.value;
  const run = here.currentRun.value;
  assert.ok(person?.kind === "person" && run);
  const openAnother = (): Answer => {
    session.value = new Opened("ses_2");
    return DONE;
  };
  session.value = here;
  const version = `ses_1~${person.message.seq - 1}.2`;
  answers.set("POST /api/sessions/ses_1/fork", () => {
    openAnother();
    return { status: 201, body: { id: version } };
  });
  answers.set("POST /v1/runs", () => DONE);
  await newVersion(person, "in other words");
  assert.deepEqual(
    outbox.value.map((one) => one.session_id),
    [version],
  );

  session.value = here;
  requests.length = 0;
  const { message_id } = person.message;
  answers.set(`PATCH /api/sessions/ses_1/queue/${message_id}`, openAnother);
  answers.set(`POST /v1/runs/${run.run_id}/stop?total=true`, () => DONE);
  answers.set("POST /api/sessions/ses_1/queue/resume", () => DONE);
  assert.ok((await queue.stopAndSend(person.message)).ok);
  assert.equal(requests.length, 3);
});

test("the newest run stays the newest when older ones are read", () => {
  const here = new Opened("ses_1");
  const run = (run_id: string, seq: number, context_tokens: number) => ({
    ...newRun({ type: "run.queued", run_id, message_id: run_id, at_ms: seq }, seq),
    context_tokens,
    doing: newActivity("queued"),
    texts: [],
    thoughts: [],
  });
  const page = { data: [], last_seq: 30, next_before: 20, runs: [run("new", 20, 2000)] };
  const rest = { title: "", epoch: "e", workspace: "", queue_paused: false, waiting: [], live: {} };
  here.load({ ...page, ...rest, usage: run("", 0, 0).usage, session: row("ses_1", 1) });
  here.addOlder({ ...page, next_before: null, runs: [run("old", 2, 1000)] });
  assert.deepEqual([...here.runs.value.keys()], ["old", "new"]);
  assert.equal(here.context.value.used, 2000);
});

const DRAFT = "PUT /api/sessions/ses_1/draft";

function drafts(): unknown[] {
  return requests.filter((one) => one.what === DRAFT).map((one) => (one.body as { text: string }).text);
}

test("an emptied draft that could not be saved is saved once the line is up", async () => {
  const here = new Opened("ses_1");
  writeDraft(here, "");
  saveDraftNow();
  await settled();
  answers.set(DRAFT, () => DONE);
  saveDraftNow();
  await settled();
  saveDraftNow();
  assert.deepEqual(drafts(), ["", ""]);
});

test("drafts of several chats that could not be saved are all saved once the line is up", async () => {
  const other = "PUT /api/sessions/ses_2/draft";
  for (const [id, text] of [
    ["ses_1", ""],
    ["ses_2", "x"],
  ] as const) {
    writeDraft(new Opened(id), text);
    saveDraftNow();
    await settled();
  }
  answers.set(DRAFT, () => DONE);
  answers.set(other, () => DONE);
  requests.length = 0;
  saveDraftNow();
  await settled();
  assert.deepEqual(requests.map((one) => one.what).toSorted(), [DRAFT, other]);
});

test("what is saved late does not undo what was written since", async () => {
  const here = new Opened("ses_1");
  answers.set(DRAFT, (body) => {
    if ((body as { text: string }).text === "half a thou") {
      writeDraft(here, "");
      saveDraftNow();
    }
    return DONE;
  });
  writeDraft(here, "half a thou");
  saveDraftNow();
  await settled();
  assert.deepEqual(drafts(), ["half a thou", "", ""]);
});

test("nothing of who signs out is left for who signs in next", async () => {
  Object.assign(globalThis, { location: { assign: () => {} } });
  session.value = new Opened("ses_1");
  answers.set("POST /api/sign-out", () => DONE);
  await send("never sent");
  storage.set("holdfast.draft", '"half a thought"');
  storage.set("holdfast.draft.ses_1", '"another"');
  storage.set("holdfast.settings", '{"theme": "dark"}');
  await signOut();
  assert.deepEqual([...storage.keys()], ["holdfast.settings"]);
  assert.deepEqual(outbox.value, []);
});

test("a bubble goes when its message is in the log", async () => {
  const here = new Opened("ses_1");
  session.value = here;
  answers.set("POST /v1/runs", () => ({
    status: 202,
    body: { run_id: "r", session_id: "ses_1", message_id: "m" },
  }));
  await send("hello");
  const client_id = outbox.value[0]?.client_id ?? "";
  assert.equal(here.pending.value.length, 1);
  here.take({ seq: 1, type: "session.created", at_ms: 1, epoch: "e" });
  here.take({ seq: 2, type: "message.accepted", at_ms: 1, message_id: "m", text: "hello", client_id });
  here.show();
  assert.equal(here.pending.value.length, 0);
  assert.equal(here.waiting.value.length, 1);
});

function row(id: string, updated_at: number, more: Partial<SessionShown> = {}): SessionShown {
  const flags = {
    pinned: false,
    archived: false,
    open_runs: 0,
    open_asks: 0,
    begun_runs: 0,
    read_seq: 0,
    unread: false,
  };
  const texts = { epoch: "e", title: id, source: "api", workspace: "", preview: "" };
  const times = { created_at: 0, started_at: 0, updated_at, last_active: updated_at };
  const ids = { object: "hermes.session" as const, id, session_id: id };
  return { ...ids, ...times, message_count: 0, ...flags, ...texts, ...more };
}

test("the list has pinned sessions first and then the newest, however changes come", () => {
  const rows = [row("a", 1), row("b", 3), row("c", 2, { pinned: true }), row("d", 3)];
  assert.deepEqual(
    ordered(rows).map((one) => one.id),
    ["c", "d", "b", "a"],
  );
  rows.forEach(putRow);
  putRow(row("a", 9));
  putRow(row("b", 3, { archived: true }));
  putRow(row("x", 9, { source: "openai" }));
  assert.deepEqual(
    sessions.value.map((one) => one.id),
    ["c", "a", "d"],
  );
});

test("archived sessions and the others do not mix, however late an answer comes", async () => {
  const [all, archived] = [row("here", 1), row("away", 1, { archived: true })];
  let answerLate = (_: Answer): void => {};
  answers.set("GET /api/sessions?limit=50", () => ({ body: { data: [all], next_cursor: "next" } }));
  answers.set("GET /api/sessions?limit=50&archived=true", () => ({
    body: { data: [archived], next_cursor: null },
  }));
  await loadSessions();
  answers.set("GET /api/sessions?limit=50", () => new Promise((answer) => (answerLate = answer)));
  const late = refreshSessions();
  await settled();
  const shown = showArchived(true);
  assert.equal(sessionsMore.value, false, "the way on led to more of the others");
  await shown;
  answerLate({ body: { data: [all], next_cursor: null } });
  await late;
  assert.deepEqual(sessions.value, [archived]);

  answers.delete("GET /api/sessions?limit=50");
  await showArchived(false);
  answers.set("GET /api/sessions?limit=50", () => ({ body: { data: [all], next_cursor: "next" } }));
  await refreshSessions();
  assert.deepEqual(sessions.value, [all], "also where the first look failed");
});

test("a list that was asked for before a change does not take the change back", async () => {
  const answerLate = new Map<string, (answer: Answer) => void>();
  const late = (request: string): void => {
    answers.set(request, () => new Promise((answer) => answerLate.set(request, answer)));
  };
  const [get, patch] = ["GET /api/sessions?limit=50", "PATCH /api/sessions/b"];
  const before = [row("a", 1, { open_asks: 2 }), row("b", 1), row("c", 1)];
  answers.set(get, () => ({ body: { data: before, next_cursor: null } }));
  await loadSessions();
  late(get);
  late(patch);
  const [listed, renamed] = [refreshSessions(), rename("b", "new")];
  await settled();
  putRow(row("a", 2, { open_asks: 3 }));
  putRow(row("b", 2, { open_asks: 1 }));
  dropRow("c");
  answerLate.get(patch)?.({ body: row("b", 1, { title: "new" }) });
  await renamed;
  answerLate.get(get)?.({ body: { data: before, next_cursor: null } });
  await listed;
  assert.deepEqual(
    sessions.value.map(({ id, open_asks }) => [id, open_asks]),
    [
      ["b", 1],
      ["a", 3],
    ],
  );
});

test("settings of a wrong type, or that cannot be read, are the defaults", () => {
  storage.set("holdfast.settings", '{"theme": "dark", "sendKey": 7, "unknown": 1}');
  readSettings();
  assert.deepEqual([settings.value.theme, settings.value.sendKey], ["dark", "enter"]);
  assert.equal("unknown" in settings.value, false);
  storage.set("holdfast.settings", "{broken");
  readSettings();
  assert.equal(settings.value.theme, "system");
});
