/** The fold of the page shows of every golden log what the server's fold shows. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { apply, fold } from "../src/view.ts";
import { expectedOf, logOf, names, pagePart, picture } from "./golden.ts";

test("there are golden logs", () => {
  assert.ok(names.length > 10);
});

for (const name of names) {
  test(`the golden log ${name} looks as expected`, () => {
    assert.deepEqual(picture(fold(logOf(name))), pagePart(expectedOf(name)));
  });

  test(`every prefix of ${name} folds, and a replay changes nothing`, () => {
    const log = logOf(name);
    const whole = picture(fold(log));
    for (let length = 0; length <= log.length; length += 1) {
      const view = fold(log.slice(0, length));
      for (const record of log) {
        apply(view, record);
      }
      assert.deepEqual(picture(view), whole);
    }
  });
}

test("who has read any part of a log before its deltas were joined goes on and ends with the same", () => {
  const [log, thinned] = [logOf("deltas"), logOf("deltas_thinned")];
  assert.ok(thinned.length < log.length);
  const whole = picture(fold(log));
  for (let length = 0; length <= log.length; length += 1) {
    const view = fold(log.slice(0, length));
    for (const record of thinned) {
      apply(view, record);
    }
    assert.deepEqual(picture(view), whole);
  }
});

test("of two superseded texts the longer one is kept, counted in characters as on the server", () => {
  const long = "\u{1F600}".repeat(4); // 8 UTF-16 units, but 4 characters
  const log = logOf("retry_superseded").map((record) =>
    record.type === "text.delta" ? { ...record, text: record.segment === 1 ? long : "wor" } : record,
  );
  const superseded = log.findLastIndex((record) => record.type === "attempt.superseded");
  const [run] = fold(log.slice(0, superseded + 1)).runs.values();
  assert.equal(run?.superseded?.text, "worwor");
});
