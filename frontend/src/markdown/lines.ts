/** What a line of markdown begins: recognisers for the block parser, each linear in the line. */

import type { Align } from "./nodes.ts";

export const TAB_COLUMNS = 4;

export type ListMarker = {
  ordered: boolean;
  sign: string;
  start: number;
  width: number;
  empty: boolean;
  rest: string;
};
export type Fence = { sign: string; length: number; indent: number; info: string };

/** How many columns of white space the line begins with. */
export function indentOf(line: string): number {
  let columns = 0;
  for (let at = 0; at < line.length; at++) {
    const char = line[at];
    if (char === " ") columns += 1;
    else if (char === "\t") columns += TAB_COLUMNS - (columns % TAB_COLUMNS);
    else break;
  }
  return columns;
}

/** The line without its first `columns` columns of white space; what is left of a cut tab stays as spaces. */
export function unindent(line: string, columns: number): string {
  let passed = 0;
  let at = 0;
  while (at < line.length && passed < columns) {
    const char = line[at];
    if (char === " ") passed += 1;
    else if (char === "\t") passed += TAB_COLUMNS - (passed % TAB_COLUMNS);
    else break;
    at += 1;
  }
  return " ".repeat(Math.max(0, passed - columns)) + line.slice(at);
}

export function isBlank(line: string): boolean {
  return !/[^ \t]/.test(line);
}

export function headingOf(line: string): { level: number; text: string } | null {
  const found = /^ {0,3}(#{1,6})(?:[ \t]+|$)/.exec(line);
  if (found === null) return null;
  const text = line.slice(found[0].length).trimEnd();
  return { level: (found[1] ?? "").length, text: withoutClosingSigns(text).trim() };
}

function withoutClosingSigns(text: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === "#") end -= 1;
  const before = text[end - 1];
  return end === 0 || before === " " || before === "\t" ? text.slice(0, end) : text;
}

export function fenceOf(line: string): Fence | null {
  const found = /^( {0,3})(`{3,}|~{3,})/.exec(line);
  if (found === null) return null;
  const signs = found[2] ?? "";
  const info = line.slice(found[0].length).trim();
  if (signs[0] === "`" && info.includes("`")) return null;
  return { sign: signs[0] ?? "", length: signs.length, indent: (found[1] ?? "").length, info };
}

export function closesFence(line: string, fence: Fence): boolean {
  if (indentOf(line) >= TAB_COLUMNS) return false;
  const text = line.trim();
  return text.length >= fence.length && text === fence.sign.repeat(text.length);
}

export function isRule(line: string): boolean {
  const found = /^ {0,3}([-*_])/.exec(line);
  if (found === null) return false;
  let signs = 0;
  for (const char of line) {
    if (char === found[1]) signs += 1;
    else if (char !== " " && char !== "\t") return false;
  }
  return signs >= 3;
}

/** 1 or 2 if the line underlines a heading, else 0. */
export function underlineOf(line: string): number {
  if (!/^ {0,3}[=-]/.test(line)) return 0;
  const text = line.trim();
  if (text === "=".repeat(text.length)) return 1;
  return text === "-".repeat(text.length) ? 2 : 0;
}

export function listMarkerOf(line: string): ListMarker | null {
  const found = /^( {0,3})(?:([-*+])|(\d{1,9})([.)]))(?=[ \t]|$)/.exec(line);
  if (found === null) return null;
  const after = line.slice(found[0].length);
  const empty = isBlank(after);
  const gap = indentOf(after);
  // more than four columns after the marker begin indented code inside the item
  const padding = empty || gap > TAB_COLUMNS ? 1 : gap;
  return {
    ordered: found[3] !== undefined,
    sign: found[2] ?? found[4] ?? "",
    start: found[3] === undefined ? 0 : Number(found[3]),
    width: found[0].length + padding,
    empty,
    rest: empty ? "" : unindent(after, padding),
  };
}

export function quoteRest(line: string): string | null {
  const found = /^ {0,3}>/.exec(line);
  return found === null ? null : unindent(line.slice(found[0].length), 1);
}

/** The label of a footnote and what follows it on its first line. */
export function noteOf(line: string): { label: string; rest: string } | null {
  const found = /^ {0,3}\[\^([^\]\s]{1,40})\]:[ \t]*/.exec(line);
  return found === null ? null : { label: found[1] ?? "", rest: line.slice(found[0].length) };
}

/** What follows the tag that opens a part which people can fold. */
export function detailsRest(line: string): string | null {
  const found = /^ {0,3}<details(?:\s{1,4}open)?>[ \t]*/i.exec(line);
  return found === null ? null : line.slice(found[0].length);
}

/** The head of such a part, if the line is one and nothing else. */
export function summaryOf(line: string): string | null {
  return /^[ \t]*<summary>(.{0,1000}?)<\/summary>[ \t]*$/i.exec(line)?.[1]?.trim() ?? null;
}

export function closesDetails(line: string): boolean {
  return /^ {0,3}<\/details>[ \t]*$/i.test(line);
}

/** The cells of a table row; a pipe behind a backslash belongs to its cell. */
export function cellsOf(line: string): string[] {
  let text = line.trim();
  if (text.startsWith("|")) text = text.slice(1);
  if (text.endsWith("|") && !text.endsWith("\\|")) text = text.slice(0, -1);
  const cells: string[] = [];
  let begin = 0;
  let escaped = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (escaped) escaped = false;
    else if (char === "\\") escaped = true;
    else if (char === "|") {
      cells.push(text.slice(begin, at));
      begin = at + 1;
    }
  }
  cells.push(text.slice(begin));
  return cells.map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** The alignments if the line is a table's second line, else null. */
export function alignmentsOf(line: string): Align[] | null {
  if (line.length > 4096 || !/^ {0,3}[|:-][-:| \t]*$/.test(line) || !line.includes("-")) return null;
  const cells = cellsOf(line);
  if (cells.length === 1 && !line.includes("|")) return null;
  const aligns: Align[] = [];
  for (const cell of cells) {
    if (!/^:?-+:?$/.test(cell)) return null;
    if (cell.startsWith(":")) aligns.push(cell.endsWith(":") ? "center" : "left");
    else aligns.push(cell.endsWith(":") ? "right" : "");
  }
  return aligns;
}
