/** Goes on from windows of the server (a file that is named) and compares with the fold of the whole log.
 *
 * Prints how many windows there were.
 */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import type { LogRecord } from "../src/events.ts";
import { shown } from "../src/view/entries.ts";
import { waiting } from "../src/view/inbox.ts";
import { statusOf } from "../src/view/runs.ts";
import { addOlder, type NewestPage, type Page, reachesAbove, trim, viewOf } from "../src/view/window.ts";
import { apply, fold, type View } from "../src/view.ts";
import { logOf } from "./golden.ts";

interface Given {
  readonly name: string;
  readonly pages: readonly [NewestPage, ...Page[]];
}

/** What must be the same whichever way a view came about: `marks` of the server aside. */
function seen(view: View, fromSeq: number): unknown {
  const open = [...view.runs.values()].filter((run) => run.phase !== "ended");
  return {
    entries: view.entries
      .filter((entry) => entry.seq >= fromSeq)
      .map((entry) => ({ ...shown(entry), mark: 0 })),
    waiting: waiting(view.inbox),
    paused: view.queuePaused,
    undos: view.undos,
    usage: view.usage,
    lastSeq: view.lastSeq,
    open: open.map((run) => [
      run.run_id,
      statusOf(run),
      run.activity,
      run.gate_until_ms,
      run.usage,
      run.context_tokens,
      run.superseded,
    ]),
  };
}

/** Takes the rest of the log; false where the server would have to be asked again. */
function goOn(view: View, rest: readonly LogRecord[]): boolean {
  for (const record of rest) {
    if (reachesAbove(view, record)) {
      return false;
    }
    apply(view, record);
  }
  return true;
}

let windows = 0;
const given: readonly Given[] = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8"));
for (const { name, pages } of given) {
  const log = logOf(name);
  const [first, ...older] = pages;
  const rest = log.filter((record) => record.seq > first.last_seq);
  const whole = fold(log);
  const where = `${name} at ${first.last_seq}`;

  const window = viewOf(structuredClone(first));
  const fromSeq = window.entries[0]?.seq ?? 0;
  assert.deepEqual(seen(window, fromSeq), seen(fold(log.slice(0, log.length - rest.length)), fromSeq), where);
  const stays = goOn(window, rest);
  if (stays) {
    assert.deepEqual(seen(window, fromSeq), seen(whole, fromSeq), `${where}, gone on`);
  }

  const paged = viewOf(structuredClone(first));
  for (const page of structuredClone(older)) {
    assert.equal(addOlder(paged, page), "added");
  }
  // What an undo took away before the window was read is brought back by the server alone.
  const redone = rest.some((record) => record.type === "session.rewound" && record.undo?.redoes);
  const gone = goOn(paged, rest);
  assert.ok(gone || redone);
  if (gone) {
    assert.deepEqual(seen(paged, 0), seen(whole, 0), `${where}, with older pages first`);
  }

  const trimmed = viewOf(structuredClone(first));
  trim(trimmed, 1);
  const trimmedSeq = trimmed.entries[0]?.seq ?? 0;
  if (goOn(trimmed, rest)) {
    assert.deepEqual(seen(trimmed, trimmedSeq), seen(whole, trimmedSeq), `${where}, trimmed`);
  }

  if (stays && older.every((page) => addOlder(window, structuredClone(page)) === "added")) {
    assert.deepEqual(seen(window, 0), seen(whole, 0), `${where}, with older pages last`);
  }
  windows += 1;
}
process.stdout.write(`${windows}\n`);
