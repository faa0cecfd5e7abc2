/** Sending messages: the text is kept in the browser until the server has it on disk. */

import { isPassing, newId, type Result, runPath, sessionPath, type Trouble, uploadFile } from "../api.ts";
import type { Started } from "../bodies.ts";
import type { Part } from "../events.ts";
import type { Message } from "../view/entries.ts";
import { ask, noteStore } from "./asking.ts";
import { homeDraft, writeHomeDraft } from "./drafts.ts";
import { nextMode } from "./modes.ts";
import { open } from "./opening.ts";
import { dropPending, outbox, putPending, readOutbox } from "./outbox.ts";
import type { OpenSession, Pending, SendMode, SendWay } from "./page_state.ts";
import { settings } from "./settings.ts";
import { session, sessions } from "./signals.ts";

/** Sends to a session (the open one), or begins one; the bubble is there at once, and the text is never lost. */
export async function send(
  text: string,
  parts: readonly Part[] = [],
  mode: SendMode = "queue",
  here: Pick<OpenSession, "id"> | null = session.value,
  way: SendWay = "",
  model: string = settings.value.model,
): Promise<Result<Started>> {
  const one: Pending = {
    client_id: newId("cli_"),
    session_id: here?.id ?? newId("ses_"),
    text,
    parts,
    mode,
    model,
    options: modelOptions(),
    way,
    permission: here === null ? nextMode.value : "",
    made_ms: Date.now(),
    state: "sending",
    trouble: null,
  };
  putPending(one);
  if (here === null) {
    nextMode.value = "";
    open(one.session_id, "new");
  }
  return deliver(one);
}

function modelOptions(): Record<string, string | number> {
  const { effort, temperature, maxTokens } = settings.value;
  return {
    ...(effort && { reasoning_effort: effort }),
    ...(temperature && { temperature: +temperature }),
    ...(maxTokens && { max_tokens: +maxTokens }),
  };
}

/** Whether the text is a shell command: it begins with an exclamation mark. */
export function isCommand(text: string): boolean {
  return /^\s*!\s*\S/.test(text);
}

/** Sends again what did not get through, under the same id: it cannot happen twice. */
export async function resend(clientId: string): Promise<Result<Started>> {
  const one = outbox.value.find((other) => other.client_id === clientId);
  return one === undefined ? { ok: false, trouble: GONE } : deliver(one);
}

const GONE: Trouble = { message: "This message was removed.", code: "gone", status: 0, param: null };

/** Takes back what did not get through; its text is the caller's again. */
export function discard(clientId: string): Pending | null {
  const one = outbox.value.find((other) => other.client_id === clientId) ?? null;
  dropPending([clientId]);
  return one;
}

/** Whatever an earlier page, or a broken line, left behind. */
export async function sendLeftovers(): Promise<void> {
  for (const one of outbox.value.filter((other) => other.state === "failed" && isPassing(other.trouble))) {
    await deliver(one);
  }
}

/** At the start of the page: what was on its way when the last one went. */
export async function sendKept(): Promise<void> {
  for (const one of readOutbox()) {
    const result = await deliver(one);
    const isHere = sessions.value.some((row) => row.id === one.session_id);
    if (!result.ok && !isPassing(result.trouble) && !isHere && homeDraft.value === "") {
      // It was to begin a session, and no list leads to it: its words go back to where they were written.
      dropPending([one.client_id]);
      writeHomeDraft(one.text);
    }
  }
}

const AGAIN_MS = 2000;
const AGAIN_MS_MAX = 8000;
let isWaiting = false;
let waitMs = AGAIN_MS;

/** The connection may be fine while the server can't save: then nothing else leads to another try. */
function tryLater(): void {
  if (isWaiting) {
    return;
  }
  isWaiting = true;
  setTimeout(() => {
    isWaiting = false;
    waitMs = outbox.value.length > 0 ? Math.min(2 * waitMs, AGAIN_MS_MAX) : AGAIN_MS;
    void sendLeftovers();
  }, waitMs);
}

/** What is on its way to each session: a browser sends on several lines, and what was said first must arrive first. */
const lines = new Map<string, Promise<unknown>>();

function deliver(one: Pending): Promise<Result<Started>> {
  putPending({ ...one, state: "sending", trouble: null });
  const before = lines.get(one.session_id);
  const mine = before === undefined ? post(one) : before.then(() => post(one));
  lines.set(one.session_id, mine);
  void mine.finally(() => {
    if (lines.get(one.session_id) === mine) lines.delete(one.session_id);
  });
  return mine;
}

async function post(one: Pending): Promise<Result<Started>> {
  if (!outbox.value.some((other) => other.client_id === one.client_id)) {
    // whoever wrote it has signed out since
    return { ok: false, trouble: GONE };
  }
  const body = {
    ...(one.way === "command" ? { command: one.text.trim().slice(1) } : { input: one.text }),
    parts: one.parts,
    session_id: one.session_id,
    client_id: one.client_id,
    origin: "page",
    when_busy: one.mode,
    ...(one.model ? { model: one.model } : {}),
    ...one.options,
    ...(one.permission ? { permission_mode: one.permission } : {}),
    ...(one.way === "plan" ? { plan_first: true } : {}),
    ...(one.way === "goal" ? { goal: true } : {}),
  };
  const headers = { "Idempotency-Key": one.client_id };
  const result = await ask<Started>("POST", "/v1/runs", { body, headers });
  if (!outbox.value.some((other) => other.client_id === one.client_id)) {
    return result;
  }
  if (!result.ok) {
    putPending({ ...one, state: "failed", trouble: result.trouble });
    if (isPassing(result.trouble)) {
      tryLater();
    }
    return result;
  }
  waitMs = AGAIN_MS;
  putPending({ ...one, state: "sent", trouble: null });
  if (session.value?.id === one.session_id && session.value.stage.value === "new") {
    open(one.session_id, "known");
  }
  return result;
}

export function upload(file: File, onProgress: (share: number) => void): Promise<Result<Part>> {
  return uploadFile(file, onProgress).then((result) => {
    noteStore("POST", result);
    return result;
  });
}

export function stop(): Promise<Result<unknown>> {
  const run = session.value?.currentRun.value;
  return run == null ? Promise.resolve({ ok: false, trouble: NO_RUN }) : stopRun(run.run_id);
}

const NO_RUN: Trouble = { message: "Nothing is running.", code: "no_run", status: 0, param: null };

/** Also one that is not the current one; a run that is over already counts as stopped. */
export function stopRun(runId: string): Promise<Result<unknown>> {
  return ask("POST", runPath(runId, "/stop?total=true"), { body: {} });
}

/** Runs the message of an ended run again; what it brought before leaves the transcript. */
export function retry(runId: string): Promise<Result<unknown>> {
  return ask("POST", runPath(runId, "/retry"), { body: {}, headers: { "Idempotency-Key": newId("try_") } });
}

/** Has the model summarize the conversation, which takes the place of it in later calls. */
export function compact(sessionId: string, focus = ""): Promise<Result<unknown>> {
  const headers = { "Idempotency-Key": newId("cmp_") };
  return ask("POST", sessionPath(sessionId, "/compact"), { body: { focus }, headers });
}

/** Ends a gate's wait. */
export function tryNow(runId: string): Promise<Result<unknown>> {
  return ask("POST", runPath(runId, "/gate"), { body: { action: "try_now" } });
}

/** The queue of the open session. */
export const queue = {
  edit: (message: Message, text: string) => change("PATCH", `/queue/${message.message_id}`, { text }),
  move: (message: Message, position: number) => change("PATCH", `/queue/${message.message_id}`, { position }),
  remove: (message: Message) => change("DELETE", `/queue/${message.message_id}`),
  steerNow: (message: Message) => change("PATCH", `/queue/${message.message_id}`, { steer: true }),
  pause: () => change("POST", "/queue/pause", {}),
  resume: () => change("POST", "/queue/resume", {}),
  clear: () => change("POST", "/queue/clear", {}),
  /** The message is next, the run under way is stopped, and the queue goes on. */
  stopAndSend: async (message: Message): Promise<Result<unknown>> => {
    // Another session may be the open one before all of this is done.
    const here = session.value;
    const run = here?.currentRun.value;
    const moved = await queue.move(message, 0);
    if (!moved.ok) {
      return moved;
    }
    const stopped = run ? await stopRun(run.run_id) : moved;
    return stopped.ok ? change("POST", "/queue/resume", {}, here) : stopped;
  },
};

function change(
  method: "PATCH" | "DELETE" | "POST",
  rest: string,
  body?: unknown,
  here: OpenSession | null = session.value,
): Promise<Result<unknown>> {
  const path = sessionPath(here?.id ?? "", rest);
  return ask(method, path, body === undefined ? {} : { body });
}
