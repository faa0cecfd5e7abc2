/** Which way lists, quotes and tables are written. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { directionOf } from "../src/markdown/direction.ts";
import { parseBlocks } from "../src/markdown/stream.ts";

const of = (text: string) => parseBlocks(text).map(directionOf);

test("a block is written as its first letter is, whatever marks and digits stand before it", () => {
  assert.deepEqual(of("1. **שלום** world"), ["rtl"]);
  assert.deepEqual(of("- 42: مرحبا"), ["rtl"]);
  assert.deepEqual(of("> - שלום"), ["rtl"]);
  assert.deepEqual(of("| שם | b |\n|---|---|\n| 1 | 2 |"), ["rtl"]);
});

test("everything else is left to the page", () => {
  assert.deepEqual(of("- hello שלום\n\n> quote\n\n| a | שם |\n|---|---|\n\n---\n\n```\nשלום\n```\n\n1. 2"), [
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});
