/** Rows in chapters: they keep their place while rows come above and below. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Chapter, chaptersOf } from "../src/talk/chapters.ts";

interface Row {
  readonly kind: string;
  readonly key: string;
}

const rows = (from: number, to: number): Row[] =>
  Array.from({ length: to - from }, (_, at) => ({
    kind: (from + at) % 3 === 0 ? "person" : "text",
    key: `row-${from + at}`,
  }));
const keys = (chapters: readonly Chapter<Row>[]) => chapters.map((chapter) => chapter.key);

test("chapters hold all rows in their order, and begin with what a person said", () => {
  const all = rows(0, 500);
  const chapters = chaptersOf(all, []);
  assert.deepEqual(
    chapters.flatMap((chapter) => chapter.rows),
    all,
  );
  assert.ok(chapters.every((chapter) => chapter.rows[0]?.kind === "person"));
  assert.ok(chapters.slice(0, -1).every(({ rows: { length } }) => length >= 40 && length < 80));
});

test("a stretch in which no person speaks is cut all the same", () => {
  const silent = rows(0, 300).map((row) => ({ ...row, kind: "text" }));
  assert.ok(chaptersOf(silent, []).every(({ rows: { length } }) => length <= 80));
});

test("what comes above or below leaves the chapters that are there as they are", () => {
  const newest = rows(200, 400);
  const before = chaptersOf(newest, []);
  const above = rows(100, 200);
  const more = chaptersOf([...above, ...newest], before);
  assert.deepEqual(keys(more).slice(-before.length), keys(before));
  assert.ok(before.every((chapter) => more.includes(chapter)));
  const below = chaptersOf([...above, ...newest, ...rows(400, 410)], more);
  assert.ok(more.slice(0, -1).every((chapter) => below.includes(chapter)));
  const trimmed = chaptersOf(newest.slice(100), below);
  assert.deepEqual(
    trimmed.flatMap((chapter) => chapter.rows),
    newest.slice(100),
  );
});

test("a message stays in its chapter when it gets its place in the log", () => {
  const some = rows(0, 50).map((row) => ({ ...row, kind: "text" }));
  const sent = chaptersOf([...some, { kind: "unplaced", key: "mine" }], []);
  const placed = chaptersOf([...some, { kind: "person", key: "mine" }], sent);
  assert.deepEqual(keys(sent), ["row-0", "mine"]);
  assert.deepEqual(keys(placed), keys(sent));
  assert.deepEqual(keys(chaptersOf([...some, { kind: "person", key: "mine" }], [])), keys(sent));
});
