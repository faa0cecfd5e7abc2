/** What comes late: an older response never takes the place of something newer. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import type { ChildList, OpenAsk, SessionShown } from "../src/bodies.ts";
import { loadMemories, memories } from "../src/features/memory/memories.ts";
import { begunSince, newsOf } from "../src/frame/notify.ts";
import { loadTargets } from "../src/state/actions.ts";
import { type readDraft, writeDraft } from "../src/state/drafts.ts";
import { childAsks, family, followFamily } from "../src/state/family.ts";
import { followInbox, inbox, loadInbox } from "../src/state/inbox.ts";
import { unfollow } from "../src/state/link.ts";
import { followUnread, open, openStart } from "../src/state/opening.ts";
import { newOrder } from "../src/state/order.ts";
import { outbox } from "../src/state/outbox.ts";
import { send, sendKept } from "../src/state/sending.ts";
import { connection, live, session, sessions, targets } from "../src/state/signals.ts";
import { signIn } from "../src/state/start.ts";
import { noUsage } from "../src/view/runs.ts";
import { type Answer, answers, held, requests, settled, storage } from "./browser.ts";

followInbox();
followFamily();
followUnread();

beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout"] });
  storage.clear();
  answers.clear();
  outbox.value = [];
  openStart();
  connection.value = "connecting";
  sessions.value = [];
  requests.length = 0;
});

afterEach(async () => {
  outbox.value = [];
  openStart();
  unfollow();
  connection.value = "connecting";
  await settled();
  mock.timers.reset();
});

function row(id: string, more: Partial<SessionShown> = {}): SessionShown {
  return {
    object: "hermes.session",
    id,
    session_id: id,
    epoch: "e",
    title: id,
    source: "api",
    workspace: "",
    preview: "",
    created_at: 0,
    started_at: 0,
    updated_at: 1,
    last_active: 1,
    message_count: 0,
    pinned: false,
    archived: false,
    open_runs: 0,
    open_asks: 0,
    begun_runs: 0,
    read_seq: 0,
    unread: false,
    ...more,
  };
}

/** The newest page of a session whose log has come so far. */
function page(id: string, last_seq: number, more: Partial<SessionShown> = {}): Answer {
  const rest = { title: "", epoch: "e", workspace: "", queue_paused: false, waiting: [], live: {}, runs: [] };
  const body = { data: [], next_before: null, last_seq, usage: noUsage(), session: row(id, more), ...rest };
  return { body };
}

function question(id: string, session_id: string, asked_at = 1): OpenAsk {
  const asked = { run_id: `run_${id}`, tool_call_id: id, question: id, choices: [], expires_at: null };
  return { kind: "question", session_id, question_id: id, asked_at, ...asked } as unknown as OpenAsk;
}

test("of several requests, one that began before another that was answered is not news", () => {
  const inOrder = newOrder();
  const [first, second, third] = [inOrder(), inOrder(), inOrder()];
  assert.ok(second());
  assert.equal(first(), false);
  assert.ok(third());
});

test("memories that were read before a change do not come back after it", async () => {
  const answer = held("GET /v1/memory");
  const [before, after] = [loadMemories(), loadMemories()];
  await settled();
  answer[1]?.({ body: { mode: "ask", data: [] } });
  answer[0]?.({ body: { mode: "auto", data: [] } });
  await Promise.all([before, after]);
  assert.equal(memories.value?.mode, "ask");
});

test("targets that were read earlier do not take the place of those that were read later", async () => {
  const answer = held("GET /api/targets");
  const [before, after] = [loadTargets(), loadTargets()];
  await settled();
  answer[1]?.({ body: { data: [{ name: "new" }] } });
  answer[0]?.({ body: { data: [{ name: "old" }] } });
  await Promise.all([before, after]);
  assert.deepEqual(
    targets.value.map(({ name }) => name),
    ["new"],
  );
});

test("an inbox whose newer reading failed takes the older one, and not the other way round", async () => {
  const answer = held("GET /v1/approvals");
  const both = [loadInbox(), loadInbox()];
  await settled();
  answer[1]?.({ status: 503, body: {} });
  answer[0]?.({ body: { data: [question("a", "s")] } });
  await Promise.all(both);
  assert.equal(inbox.value.length, 1);
});

test("an ask that takes the place of another between two looks at the row is read", async () => {
  answers.set("GET /v1/memory", () => ({ body: { mode: "ask", data: [] } }));
  answers.set("GET /v1/approvals", () => ({ body: { data: [question("a", "s")] } }));
  sessions.value = [row("s", { open_asks: 1, updated_at: 1 })];
  connection.value = "live";
  await settled();
  answers.set("GET /v1/approvals", () => ({ body: { data: [question("b", "s")] } }));
  sessions.value = [row("s", { open_asks: 1, updated_at: 2 })];
  await settled();
  assert.deepEqual(
    inbox.value.map((ask) => ask.kind === "question" && ask.question_id),
    ["b"],
  );
});

function children(...asks: OpenAsk[]): Answer {
  return { body: { data: [{ name: "scout", session_id: "kid", asks }] } as unknown as ChildList };
}

test("what a sub-agent asks is not shown in a chat that was opened while it was read", async () => {
  const approval = { kind: "approval", session_id: "kid", approval_id: "ask", asked_at: 1 };
  answers.set("GET /api/sessions/child/messages?limit=60", () => page("child", 1, { source: "child" }));
  answers.set("GET /api/sessions/child/children", () => children(approval as unknown as OpenAsk));
  const exact = held("GET /api/sessions/kid/messages?limit=200");
  open("child");
  connection.value = "live";
  await settled();
  assert.equal(exact.length, 1, "its log is read");
  open("other");
  const ids = { run_id: "r", tool_call_id: "t" };
  exact[0]?.({
    body: {
      data: [
        { kind: "ask", ask: "approval", ask_id: "ask", ...ids },
        { kind: "tool", ...ids, args: {} },
      ],
    },
  });
  await settled();
  assert.deepEqual(childAsks.value, []);
});

test("sub-agents whose first reading failed are read again", async () => {
  answers.set("GET /api/sessions/child/events?after=1@e&pace_ms=100", () => saying());
  answers.set("GET /api/sessions/child/messages?limit=60", () => page("child", 1, { source: "child" }));
  open("child");
  await settled();
  answers.set("GET /api/sessions/child/children", () => children());
  mock.timers.tick(2000);
  await settled();
  assert.equal(family.value?.data.length, 1);
});

test("a draft that is read late does not come back after something else was written and sent", async () => {
  const answer = held("GET /api/sessions/s/draft");
  answers.set("PUT /api/sessions/s/draft", () => ({ body: {} }));
  answers.set("GET /api/sessions/s/messages?limit=60", () => page("s", 1));
  open("s");
  const here = session.value as Parameters<typeof readDraft>[0] | null;
  assert.ok(here);
  await settled();
  writeDraft(here, "hello");
  writeDraft(here, "");
  answer[0]?.({ body: { text: "an old thought" } });
  await settled();
  assert.equal(here.draft.value, "");
});

test("what was sent before the page had begun is neither sent twice nor gone from sight", async () => {
  const answer = held("POST /v1/runs");
  const sent = send("words");
  await settled();
  const begun = sendKept();
  await settled();
  assert.equal(answer.length, 1);
  answer[0]?.({ status: 202, body: { run_id: "r", session_id: "s", message_id: "m" } });
  await Promise.all([sent, begun]);
  await sendKept();
  assert.deepEqual(
    outbox.value.map(({ text, state }) => [text, state]),
    [["words", "sent"]],
  );
});

test("what was said first arrives first, however fast the next message is written", async () => {
  const answer = held("POST /v1/runs");
  const said = [send("one", [], "queue", { id: "s" }), send("two", [], "queue", { id: "s" })];
  const other = send("elsewhere", [], "queue", { id: "t" });
  await settled();
  const inputs = (): unknown[] =>
    requests
      .filter(({ what }) => what === "POST /v1/runs")
      .map(({ body }) => (body as { input: string }).input);
  assert.deepEqual(inputs(), ["one", "elsewhere"]);
  const started: Answer = { status: 202, body: { run_id: "r", session_id: "s", message_id: "m" } };
  answer[0]?.(started);
  await settled();
  assert.deepEqual(inputs(), ["one", "elsewhere", "two"]);
  for (const give of answer) give(started);
  await Promise.all([...said, other]);
});

test("a chat is marked as read although its row says later than its log that it is unread", async () => {
  answers.set("GET /api/sessions/s/messages?limit=60", () => page("s", 1));
  open("s");
  await settled();
  mock.timers.tick(700);
  await settled();
  const marks = (): unknown[] => requests.filter(({ what }) => what === "PATCH /api/sessions/s");
  assert.equal(marks().length, 0, "nothing is unread");
  sessions.value = [row("s", { unread: true })];
  mock.timers.tick(700);
  await settled();
  assert.equal(marks().length, 1);
});

test("an ask of a chat that began since the list was read is news, and one of an older chat is not", () => {
  const known = new Map([["a", row("a", { created_at: 5 })]]);
  const asking = { open_asks: 1 };
  const news = (created_at: number): string | null => {
    const now = row("b", { ...asking, created_at });
    return newsOf(begunSince(known, now), now);
  };
  assert.equal(news(6), "Needs your answer.");
  assert.equal(news(4), null);
});

test("what was refused for want of a key is sent after the sign-in", async () => {
  answers.set("POST /v1/runs", () => ({ status: 401, body: {} }));
  await send("words");
  answers.set("POST /v1/runs", () => ({
    status: 202,
    body: { run_id: "r", session_id: "s", message_id: "m" },
  }));
  await sendKept();
  assert.equal(outbox.value[0]?.state, "sent");
});

test("a refusal from before the sign-in does not sign out who has come in since", async () => {
  const answer = held("GET /v1/memory");
  const late = loadMemories();
  await settled();
  answers.set("POST /api/sign-in", () => ({ body: { page: "secret" } }));
  assert.ok((await signIn("a key")).ok);
  answer[0]?.({ status: 401, body: {} });
  await late;
  assert.notEqual(connection.value, "signed-out");
  const refused = loadMemories();
  await settled();
  answer[1]?.({ status: 401, body: {} });
  await refused;
  assert.equal(connection.value, "signed-out", "one from after it does");
});

/** A stream that says these frames in one piece, and then nothing. */
function saying(...frames: object[]): Answer {
  const text = frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join("");
  return {
    body: new ReadableStream({ start: (line) => line.enqueue(new TextEncoder().encode(text)) }),
  };
}

test("a live line that comes in one piece with an event counts if it comes after it, and not before", async () => {
  const line = { type: "live", run_id: "r", text: "waits" };
  const event = { seq: 2, type: "call.started", at_ms: 1, run_id: "r", call_id: "c" };
  for (const [frames, text] of [
    [[event, line], "waits"],
    [[line, event], undefined],
  ] as const) {
    answers.set("GET /api/sessions/s/messages?limit=60", () => page("s", 1));
    answers.set("GET /api/sessions/s/events?after=1@e&pace_ms=100", () => saying(...frames));
    open("s");
    await settled();
    assert.equal(session.value?.lastSeq.value, 2);
    assert.equal(live.value?.text, text);
    openStart();
  }
});

test("a page of a chat that was asked for earlier does not take the place of a newer one", async () => {
  const answer = held("GET /api/sessions/s/messages?limit=60");
  open("s");
  open("s");
  await settled();
  answer[1]?.(page("s", 9));
  await settled();
  answer[0]?.(page("s", 3));
  await settled();
  assert.equal(session.value?.lastSeq.value, 9);
});
