/** Where maths begins and ends in a text, told apart from prices and escaped brackets; pure. */

import type { Tail } from "./emphasis.ts";

/** What is longer is no formula, and would take long to lay out. */
export const MATHS_CHARS_MAX = 4000;
const ONE_LINE_CHARS_MAX = 1000;

const CLOSERS: Readonly<Record<string, string>> = { $$: "$$", "\\[": "\\]", "\\(": "\\)", $: "$" };
const OPENER = /\$\$?|\\[[(]/y;
const BLOCK_OPENER = /^ {0,3}(\$\$|\\\[)/;
// brackets that are escaped so that they make no link: a number or plain words
const ONLY_WORDS = /^\s*(?:\d+|\p{L}[\p{L}\p{N} ,.'-]+)\s*$/u;
const WORDY = /^[\p{L}\p{N}]/u;

export type Maths = { kind: "maths"; text: string; source: string; display: boolean };

/** The maths at this place; "open" if more text might close it. `lastOf` tells the last place of a sign in the text. */
export function mathsAt(
  text: string,
  at: number,
  { tail, lastOf }: { tail: Tail; lastOf: (sign: string) => number },
): Maths | "open" | null {
  OPENER.lastIndex = at;
  const opener = OPENER.exec(text)?.[0] ?? "";
  const from = at + opener.length;
  if (opener === "" || (opener === "$" && !opensAfter(text, at))) return null;
  const max = opener === "$" ? ONE_LINE_CHARS_MAX : MATHS_CHARS_MAX;
  const near = text.slice(from, from + max);
  // where nothing closes it, nobody looks for it again and again
  const end = lastOf(CLOSERS[opener] ?? "") < from ? -1 : closerAt(near, 0, opener);
  if (end < 0) {
    const isFar = text.length - from > max || (opener === "$" && near.includes("\n"));
    return isFar ? null : "open";
  }
  const inner = near.slice(0, end);
  const after = from + end + (CLOSERS[opener] ?? "").length;
  if (inner.trim() === "") return null;
  if (opener === "$" && !isFormula(inner, text.slice(after, after + 2))) return null;
  if (opener === "\\[" && (text[after] === "(" || ONLY_WORDS.test(inner))) return null;
  // the next sign decides whether a dollar closes
  if (opener === "$" && after === text.length && tail !== "settled") return "open";
  const display = opener === "$$" || opener === "\\[";
  return { kind: "maths", text: inner, source: text.slice(at, after), display };
}

/** A dollar may open maths if no word ends before it and no blank follows. */
function opensAfter(text: string, at: number): boolean {
  return !WORDY.test(text[at - 1] ?? "") && /\S/.test(text[at + 1] ?? "x");
}

/** What is between two dollars, unless the second begins a price, or the first did. */
function isFormula(inner: string, after: string): boolean {
  if (/\s$|[`\n]/.test(inner) || WORDY.test(after)) return false;
  return !/^\d/.test(inner) || !/(?<![\\\p{L}])\p{L}{2,}/u.test(inner);
}

/** The place of what closes the maths; a backslash before it makes it a sign of the formula. */
function closerAt(text: string, from: number, opener: string): number {
  const closer = CLOSERS[opener] ?? "";
  let at = text.indexOf(closer, from);
  while (at >= 0 && isEscaped(text, from, at)) at = text.indexOf(closer, at + 1);
  return at;
}

function isEscaped(text: string, from: number, at: number): boolean {
  let begin = at;
  while (begin > from && text[begin - 1] === "\\") begin -= 1;
  return (at - begin) % 2 === 1;
}

/** How a line begins a block of maths: what opens it, and the rest of the line; null if it doesn't.
 *
 * A line that goes on after its maths is running text.
 */
export function mathsBlockOf(line: string): { opener: string; rest: string } | null {
  const found = BLOCK_OPENER.exec(line);
  const opener = found?.[1] ?? "";
  const rest = line.slice(found?.[0].length ?? 0);
  const end = closerAt(rest, 0, opener);
  const isRunning = end >= 0 && rest.slice(end + 2).trim() !== "";
  const isWords = opener === "\\[" && ONLY_WORDS.test(end < 0 ? rest : rest.slice(0, end));
  return found === null || isRunning || isWords ? null : { opener, rest };
}

/** The end of a block of maths in a line of it: the place after what closes it; -1 if it goes on. */
export function mathsBlockEnd(line: string, opener: string): number {
  const at = closerAt(line, 0, opener);
  return at < 0 ? -1 : at + 2;
}
