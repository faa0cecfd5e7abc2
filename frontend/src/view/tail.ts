/** The end of what a running tool says; past its limit only the end is kept. */

import { TOOL_OUTPUT_CHARS_MAX, type ToolEntry } from "./entries.ts";

/** How many characters Python counts: a pair of surrogates is one. */
export function charsIn(text: string): number {
  let chars = text.length;
  for (let at = 0; at < text.length - 1; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit >= 0xd800 && unit < 0xdc00) {
      chars -= 1;
      at += 1;
    }
  }
  return chars;
}

/** More of a tool's output. */
export function addTail(card: ToolEntry, text: string): void {
  card.output_chars += charsIn(text);
  const whole = card.output + text;
  card.output = whole.length > TOOL_OUTPUT_CHARS_MAX ? cutToEnd(whole) : whole;
}

/** The last characters up to the limit, never half of a pair of surrogates. */
function cutToEnd(text: string): string {
  const end = text.slice(-2 * TOOL_OUTPUT_CHARS_MAX);
  const chars = charsIn(end);
  if (chars <= TOOL_OUTPUT_CHARS_MAX) {
    return end;
  }
  return charsIn(end) === end.length
    ? end.slice(-TOOL_OUTPUT_CHARS_MAX)
    : Array.from(end).slice(-TOOL_OUTPUT_CHARS_MAX).join("");
}
