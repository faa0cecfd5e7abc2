/** The golden logs and their pictures, shared with the server's tests. */

import { readdirSync, readFileSync } from "node:fs";
import type { LogRecord } from "../src/events.ts";
import { shown } from "../src/view/entries.ts";
import { waiting } from "../src/view/inbox.ts";
import { mark, output } from "../src/view/reading.ts";
import { type RunView, statusOf } from "../src/view/runs.ts";
import type { View } from "../src/view.ts";

const FOLDER = new URL("../../tests/golden/", import.meta.url);

export const names = readdirSync(FOLDER)
  .filter((file) => file.endsWith(".jsonl"))
  .map((file) => file.replace(".jsonl", ""))
  .toSorted();

/** An older version of an event as the server would bring it up to date; the page is sent current ones. */
function upcast(record: Record<string, unknown>): Record<string, unknown> {
  const { type, delta, ...rest } = record;
  switch (type) {
    case "text.delta/0":
      return upcast({ ...rest, type: "text.delta/1", text: delta });
    case "text.delta/1":
      return { ...rest, type: "text.delta", segment: 0 };
    default:
      return record;
  }
}

export function logOf(name: string): LogRecord[] {
  const lines = readFileSync(new URL(`${name}.jsonl`, FOLDER), "utf8")
    .trimEnd()
    .split("\n");
  return lines.map((line) => upcast(JSON.parse(line)) as unknown as LogRecord);
}

export function expectedOf(name: string): Expected {
  return JSON.parse(readFileSync(new URL(`${name}.expected.json`, FOLDER), "utf8"));
}

interface ExpectedRun {
  readonly [field: string]: unknown;
}

export interface Expected {
  readonly session: {
    readonly runs: Readonly<Record<string, ExpectedRun>>;
    readonly [field: string]: unknown;
  };
  readonly [field: string]: unknown;
}

function runPicture(run: RunView): Record<string, unknown> {
  return {
    status: statusOf(run),
    outcome: run.ending?.outcome ?? null,
    cause: run.ending?.cause ?? "",
    failure: run.ending?.failure ?? null,
    stop_cause: run.stop_cause,
    target: run.target,
    asks: Object.fromEntries([...run.asks].map(([id, ask]) => [id, ask.state])),
    usage: run.usage,
    gate_until_ms: run.gate_until_ms,
  };
}

/** All that the page's fold makes of a log, in the words of the expected pictures. */
export function picture(view: View): Record<string, unknown> {
  const runs = [...view.runs.values()];
  const messages = [...view.inbox.messages].map(([id, one]) => [
    id,
    { state: one.state, run_id: one.run_id, text: one.text },
  ]);
  return {
    session: {
      last_seq: view.lastSeq,
      title: view.title,
      queue_paused: view.queuePaused,
      forked_from: view.forkedFrom,
      queue: view.inbox.queue,
      steering: view.inbox.steering,
      messages: Object.fromEntries(messages),
      runs: Object.fromEntries(runs.map((run) => [run.run_id, runPicture(run)])),
      ...(view.undos.length > 0 ? { undos: view.undos } : {}),
    },
    entries: view.entries.map(shown),
    waiting: waiting(view.inbox).map((message) => message.message_id),
    outputs: Object.fromEntries(runs.map((run) => [run.run_id, output(view, run.run_id)])),
    marks: Object.fromEntries(runs.map((run) => [run.run_id, mark(view, run.run_id, run.updated_ms, true)])),
    ...(view.plans.length > 0 ? { plans: view.plans.map(({ seq, steps }) => [seq, steps]) } : {}),
  };
}

/** The part of an expected picture that the page needs: no context for models, no counters; tools are among the entries. */
export function pagePart(expected: Expected): Record<string, unknown> {
  const { context: _, session, ...rest } = expected;
  const { grants: __, runs, ...others } = session;
  const kept = Object.entries(runs).map(([id, run]) => {
    const {
      last_event: _event,
      turns: _turns,
      tools: _tools,
      resumptions: _resumptions,
      resumptions_without_progress: _without,
      recovered: _recovered,
      ...shownRun
    } = run;
    return [id, shownRun];
  });
  return { ...rest, session: { ...others, runs: Object.fromEntries(kept) } };
}
