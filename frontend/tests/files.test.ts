/** The workspace's tree as rows, tables in text, and how a message names a file. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sheetOf } from "../src/files/csv.ts";
import { type Folders, keyOf, mention, parentOf, rowsOf, UNREAD, withPage } from "../src/files/tree_state.ts";

const page = (path: string, names: readonly string[], total = names.length, next_cursor?: string) => ({
  path,
  entries: names.map((name) => ({ name, kind: name.endsWith("/") ? "folder" : "file" }) as const),
  entries_total: total,
  ...(next_cursor === undefined ? {} : { next_cursor }),
});

test("open folders show what is in them, and say what is missing", () => {
  const root = withPage(UNREAD, page("", ["src", "a"]), true);
  const [src, a] = root.entries;
  assert.ok(src && a);
  const folders: Folders = new Map([
    ["", { ...root, entries: [{ ...src, kind: "folder" as const }, a] }],
    ["src", withPage(UNREAD, page("src", ["x", "y"], 900, "more"), true)],
  ]);
  const closed = rowsOf(folders, new Set());
  assert.deepEqual(closed.map(keyOf), ["src", "a"]);
  const open = rowsOf(folders, new Set(["src"]));
  assert.deepEqual(
    open.map((row) => [row.kind, row.level]),
    [
      ["entry", 1],
      ["entry", 2],
      ["entry", 2],
      ["more", 2],
      ["entry", 1],
    ],
  );
  assert.equal(new Set(open.map(keyOf)).size, open.length);
  const more = open[3];
  assert.ok(more?.kind === "more" && more.left === 898);
});

test("a further page is added, and the first one replaces what was known", () => {
  const first = withPage(UNREAD, page("", ["a"], 2, "next"), true);
  const both = withPage(first, page("", ["b"], 2), false);
  assert.deepEqual(
    both.entries.map((one) => one.name),
    ["a", "b"],
  );
  assert.equal(both.cursor, "");
  assert.deepEqual(withPage(both, page("", ["c"]), true).entries.length, 1);
});

test("a folder without entries says so, and one that failed says why", () => {
  const words = (state: Partial<typeof UNREAD>): string => {
    const [row] = rowsOf(new Map([["", { ...UNREAD, ...state }]]), new Set());
    return row?.kind === "note" ? row.words : "";
  };
  assert.equal(words({}), "Loading");
  assert.equal(words({ isLoading: false }), "This folder is empty.");
  assert.equal(words({ isLoading: false, trouble: "It is gone." }), "It is gone.");
});

test("a name that would end early in a message is quoted", () => {
  assert.equal(mention("src/größe-1.py"), "@src/größe-1.py");
  assert.equal(mention('a "b".txt'), '@"a \\"b\\".txt"');
  assert.equal(parentOf("a/b/c"), "a/b");
  assert.equal(parentOf("a"), "");
});

test("a table is read with quotes, any separator and a limit", () => {
  assert.deepEqual(sheetOf('a,"b, c"\r\n"1 ""2""",\n').rows, [
    ["a", "b, c"],
    ['1 "2"', ""],
  ]);
  assert.deepEqual(sheetOf("a;b\n1,5;2").rows, [
    ["a", "b"],
    ["1,5", "2"],
  ]);
  assert.deepEqual(sheetOf("").rows, []);
  const long = sheetOf("x\n".repeat(2_000));
  assert.ok(long.isCut && long.rows.length === 500);
  const wide = sheetOf("x,".repeat(2_000));
  assert.ok(wide.isCut && wide.rows[0]?.length === 50);
  assert.ok(sheetOf(`"${"y".repeat(10_000)}`).rows[0]?.[0]?.length === 500);
});
