/** Which way a block is written, where the browser does not find out by itself: by its first letter; pure. */
import type { Block, Item } from "./nodes.ts";

const RIGHT_TO_LEFT = /^[^\p{L}]*[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}]/u;
const LOOK_CHARS = 200;

/** "rtl", or nothing where that is as the page is. */
export function directionOf(block: Block | Item | undefined): "rtl" | undefined {
  return RIGHT_TO_LEFT.test(beginningOf(block).slice(0, LOOK_CHARS)) ? "rtl" : undefined;
}

function beginningOf(block: Block | Item | undefined): string {
  switch (block?.kind) {
    case "paragraph":
      return block.settled[0] ?? block.text;
    case "heading":
      return block.text;
    case "table":
      return block.head.join(" ");
    case "quote":
    case "item":
    case "list":
    case "note":
    case "details":
      return beginningOf(block.children[0]);
    default:
      return "";
  }
}
