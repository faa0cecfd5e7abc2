/** Text that grows piece by piece is at each moment what it would be at once. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { GrowingText } from "../src/markdown/growing.ts";
import { parseGrowing, parseInline } from "../src/markdown/inline.ts";
import type { Block, Inline } from "../src/markdown/nodes.ts";
import { MarkdownStream, parseBlocks } from "../src/markdown/stream.ts";

const BITS = [
  ..."abc  ....,,,()\"'!?:;-_*`~[]<>&@|#+=1/\\",
  ...[
    "word ",
    "a longer stretch of words, as they come ",
    "**",
    "`",
    "``",
    "](",
    "[a](b ",
    "https://a.b/c",
    "www.",
  ],
  ...[
    "<br",
    " />",
    "&amp;",
    "x@y.de",
    "*x* ",
    "**bold** ",
    "`code` ",
    "[link](https://example.com/) ",
    "~~",
    "\u202e",
  ],
];
const LINES = [
  "\n",
  "\n\n",
  "\n- ",
  "\n1. ",
  "\n> ",
  "\n# ",
  "\n```\n",
  "\n| a | b |\n|---|---|\n",
  "\n---\n",
  "\n    ",
];

/** The same numbers in the same order each time. */
function* numbers(seed: number): Generator<number> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    yield state >>> 8;
  }
}

function pieces(seed: number, bits: readonly string[]): string[] {
  const random = numbers(seed);
  const next = (): number => random.next().value as number;
  // mostly words, or nothing would ever be closed
  const one = (): string => (next() % 24 > 0 ? "words " : (bits[next() % bits.length] ?? ""));
  return Array.from({ length: 80 + (next() % 80) }, one);
}

/** Parts with texts that stand side by side as one. */
function joined(parts: readonly Inline[]): Inline[] {
  const whole: Inline[] = [];
  for (const part of parts) {
    const last = whole.at(-1);
    if (part.kind === "text" && last?.kind === "text")
      whole[whole.length - 1] = { kind: "text", text: last.text + part.text };
    else whole.push("children" in part ? { ...part, children: joined(part.children) } : part);
  }
  return whole;
}

/** The parts behind the settled ones, by the words alone where these do. */
function rested(growing: GrowingText, text: string, before: readonly Inline[]): readonly Inline[] {
  const fresh = growing.lengthen(text);
  const last = before.at(-1);
  if (fresh === null) return growing.grow(text);
  assert.ok(last?.kind === "text", "only plain words grow by words alone");
  return [...before.slice(0, -1), { kind: "text", text: last.text + fresh }];
}

test("what is settled in a paragraph never turns out to be something else", () => {
  let cuts = 0;
  for (let seed = 1; seed <= 300; seed += 1) {
    const growing = new GrowingText();
    let text = "";
    let rest: readonly Inline[] = [];
    for (const piece of pieces(seed, BITS)) {
      text += piece;
      assert.ok(growing.leadsTo(text));
      rest = rested(growing, text, rest);
      assert.deepEqual(joined([...growing.settled, ...rest]), joined(parseGrowing(text)), `seed ${seed}`);
    }
    const end = growing.end(text);
    assert.deepEqual(joined([...growing.settled, ...end]), joined(parseInline(text)), `seed ${seed}`);
    cuts += growing.settled.length;
  }
  assert.ok(cuts > 300, String(cuts));
});

test("words that lengthen the open paragraph change nothing else", () => {
  let grew = 0;
  for (let seed = 1; seed <= 300; seed += 1) {
    const stream = new MarkdownStream();
    let text = "";
    let open = { at: null as Block | null, words: "" };
    let blocks: readonly Block[] = [];
    for (const piece of pieces(seed, [...BITS, ...LINES])) {
      text += piece;
      const fresh = stream.lengthen(piece);
      if (fresh === null) {
        stream.push(piece);
        const now = stream.snapshot();
        blocks = now.blocks;
        open = { at: now.open, words: now.open?.text ?? "" };
      } else {
        grew += 1;
        open.words += fresh;
      }
      const other = new MarkdownStream();
      other.push(text);
      assert.deepEqual(
        withWords(blocks, open),
        other.snapshot().blocks,
        `seed ${seed}: ${JSON.stringify(text)}`,
      );
    }
    stream.end();
    assert.deepEqual(stream.snapshot().blocks, parseBlocks(text), `seed ${seed}`);
  }
  assert.ok(grew > 10_000, String(grew));
});

function withWords(blocks: readonly Block[], open: { at: Block | null; words: string }): unknown {
  return blocks.map((block) => {
    if (block === open.at) return { ...block, text: open.words };
    return "children" in block
      ? { ...block, children: withWords(block.children as readonly Block[], open) }
      : block;
  });
}
