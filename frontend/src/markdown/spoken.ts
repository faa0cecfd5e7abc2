/** Markdown as it is read aloud: one sentence after the other, without its marks; pure. */

import { parseInline, plainText } from "./inline.ts";
import type { Block } from "./nodes.ts";
import { parseBlocks } from "./stream.ts";

/** The sentences of a text; a heading, an item and a cell are sentences of their own. */
export function sentencesOf(text: string): string[] {
  return parseBlocks(text).flatMap(spoken);
}

// a screen reader can't skip what a live region says
const SAID_CHARS_MAX = 2000;

/** The sentences of a growing text that are complete; the last one is when nothing more can come. */
export function completeSentences(text: string, done: boolean): string[] {
  const isWhole = done && text.length <= SAID_CHARS_MAX;
  const found = sentencesOf(text.slice(0, SAID_CHARS_MAX));
  return isWhole ? found : found.slice(0, -1);
}

function spoken(block: Block): string[] {
  switch (block.kind) {
    case "paragraph":
      return sentences([...block.settled, block.text].join(""));
    case "heading":
      return sentences(block.text);
    case "code":
      return ["Code.", ...block.text.split("\n").filter((line) => line.trim() !== "")];
    case "maths":
      return [block.text];
    case "table":
      return [block.head, ...block.rows].map((cells) => cells.map(plain).join(", "));
    case "rule":
      return [];
    case "list":
      return block.children.flatMap((item) => item.children.flatMap(spoken));
    case "details":
      return [...sentences(block.summary), ...block.children.flatMap(spoken)];
    case "quote":
    case "note":
      return block.children.flatMap(spoken);
  }
}

function plain(text: string): string {
  return plainText(parseInline(text)).replace(/\s+/g, " ").trim();
}

function sentences(text: string): string[] {
  return plain(text)
    .split(/(?<=[.!?\u3002\uff01\uff1f])\s+(?=\S)/u)
    .filter((sentence) => sentence !== "");
}
