/** Colours for code: each line is looked at once, with what the lines before it left open. */

import { type Grammar, grammarOf } from "./grammars.ts";

export type Shade =
  | ""
  | "keyword"
  | "string"
  | "number"
  | "comment"
  | "name"
  | "type"
  | "add"
  | "remove"
  | "hunk";
export type Token = { readonly shade: Shade; readonly text: string };

// a longer line is data more often than code, and is shown as it is
const LINE_CHARS_MAX = 2_000;

const NUMBER = /(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)[a-zA-Z%]{0,4}/y;
const WORD = /[\p{L}_$@][\p{L}\p{N}_$]*/uy;
const OPTION = /--?[A-Za-z][\w-]*/y;
const VARIABLE = /\$(?:\w+|\{[^}]{0,200}\}|[?#@*!$])/y;
const PLAIN_RUN = /[^\p{L}\p{N}_$@"'`#/<>*\-=&;:.{}[\]()!]+|./uy;

/** A highlighter for the language of this name; null if nothing is known about it. */
export function highlighterOf(language: string): Highlighter | null {
  const grammar = grammarOf(language);
  return grammar === null ? null : new Highlighter(grammar);
}

/** Lines of one piece of code, in their order. */
export class Highlighter {
  readonly #grammar: Grammar;
  #open = ""; // what ends the comment or string that an earlier line began
  #shade: Shade = "";

  constructor(grammar: Grammar) {
    this.#grammar = grammar;
  }

  /** The same state, for a line that is not complete yet. */
  fork(): Highlighter {
    const fork = new Highlighter(this.#grammar);
    fork.#open = this.#open;
    fork.#shade = this.#shade;
    return fork;
  }

  line(text: string): Token[] {
    if (this.#grammar.special === "diff") return [{ shade: diffShade(text), text }];
    if (text.length > LINE_CHARS_MAX) return [{ shade: "", text }];
    const tokens: Token[] = [];
    let at = 0;
    while (at < text.length) {
      const token = this.#open === "" ? this.#next(text, at) : this.#rest(text, at);
      const last = tokens[tokens.length - 1];
      if (last !== undefined && last.shade === token.shade)
        tokens[tokens.length - 1] = { ...last, text: last.text + token.text };
      else tokens.push(token);
      at += token.text.length;
    }
    return tokens;
  }

  #rest(text: string, at: number): Token {
    const end = endOf(text, at, this.#open);
    const shade = this.#shade;
    if (end < 0) return { shade, text: text.slice(at) };
    this.#open = "";
    return { shade, text: text.slice(at, end) };
  }

  #next(text: string, at: number): Token {
    return (
      this.#comment(text, at) ?? this.#string(text, at) ?? this.#special(text, at) ?? this.#word(text, at)
    );
  }

  #comment(text: string, at: number): Token | null {
    const { lineComments, blockComment, special } = this.#grammar;
    for (const sign of lineComments) {
      const inWord = special !== "" && at > 0 && !/[\s;(]/.test(text[at - 1] ?? "");
      if (text.startsWith(sign, at) && !inWord) return { shade: "comment", text: text.slice(at) };
    }
    if (blockComment === null || !text.startsWith(blockComment[0], at)) return null;
    return this.#begin(text, at, { sign: blockComment[0], end: blockComment[1], shade: "comment" });
  }

  #string(text: string, at: number): Token | null {
    const { longQuotes, quotes, special } = this.#grammar;
    for (const sign of longQuotes)
      if (text.startsWith(sign, at)) return this.#begin(text, at, { sign, end: sign, shade: "string" });
    const sign = text[at] ?? "";
    if (!quotes.includes(sign)) return null;
    const end = endOf(text, at + 1, sign);
    // an apostrophe that nothing closes is one
    if (end < 0) return sign === "'" ? { shade: "", text: sign } : { shade: "string", text: text.slice(at) };
    const isKey = special === "keys" && /^\s*[:=]/.test(text.slice(end, end + 8));
    return { shade: isKey ? "name" : "string", text: text.slice(at, end) };
  }

  #begin(text: string, at: number, what: { sign: string; end: string; shade: Shade }): Token {
    const end = endOf(text, at + what.sign.length, what.end);
    if (end >= 0) return { shade: what.shade, text: text.slice(at, end) };
    this.#open = what.end;
    this.#shade = what.shade;
    return { shade: what.shade, text: text.slice(at) };
  }

  #special(text: string, at: number): Token | null {
    const { special } = this.#grammar;
    if (special === "shell") {
      const variable = matched(VARIABLE, text, at);
      if (variable !== "") return { shade: "name", text: variable };
      const option = /[\s=]/.test(text[at - 1] ?? " ") ? matched(OPTION, text, at) : "";
      return option === "" ? null : { shade: "type", text: option };
    }
    if (special === "keys") {
      const key = /^(?:- +)?[A-Za-z_][\w.-]{0,80}(?=\s*[:=](?:\s|$))|^\[[^\]]{1,80}\]$/.exec(
        text.slice(at).trimEnd(),
      );
      return key !== null && text.slice(0, at).trim() === "" ? { shade: "name", text: key[0] } : null;
    }
    if (special === "css") {
      const found =
        /^(?:[#.][\w-]+|@[\w-]+|--[\w-]+|[\w-]+(?=\s*:\s))/.exec(text.slice(at, at + 80))?.[0] ?? "";
      if (found === "") return null;
      return {
        shade: found.startsWith("@")
          ? "keyword"
          : found.startsWith("#") || found.startsWith(".")
            ? "type"
            : "name",
        text: found,
      };
    }
    if (special === "markup") {
      const tag = /^<\/?[A-Za-z][\w:.-]*|^\/?>/.exec(text.slice(at, at + 80))?.[0] ?? "";
      if (tag !== "") return { shade: "keyword", text: tag };
      const attribute = /^[\w:@.-]+(?==["'{])/.exec(text.slice(at, at + 80))?.[0] ?? "";
      return attribute === "" ? null : { shade: "name", text: attribute };
    }
    return null;
  }

  #word(text: string, at: number): Token {
    const { keywords, constants, folded, special } = this.#grammar;
    const word = matched(WORD, text, at);
    if (word === "") {
      const number = matched(NUMBER, text, at);
      return number === ""
        ? { shade: "", text: matched(PLAIN_RUN, text, at) || (text[at] ?? "") }
        : { shade: "number", text: number };
    }
    const key = folded ? word.toLowerCase() : word;
    if (keywords.has(key)) return { shade: "keyword", text: word };
    if (constants.has(key)) return { shade: "number", text: word };
    if (special !== "" || folded) return { shade: "", text: word };
    if (word.startsWith("@")) return { shade: "type", text: word };
    if (text[at + word.length] === "(") return { shade: "name", text: word };
    return { shade: /^[A-Z][A-Za-z0-9]*[a-z]/.test(word) ? "type" : "", text: word };
  }
}

function matched(pattern: RegExp, text: string, at: number): string {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? "";
}

/** The index after the next `sign` that isn't escaped by a backslash, or -1. */
function endOf(text: string, at: number, sign: string): number {
  for (let to = at; to < text.length; to++) {
    if (text[to] === "\\") to += 1;
    else if (text.startsWith(sign, to)) return to + sign.length;
  }
  return -1;
}

/** What a line of a unified diff is. */
export function diffShade(line: string): Shade {
  if (line.startsWith("@@")) return "hunk";
  if (line.startsWith("+++") || line.startsWith("---") || line.startsWith("diff ")) return "comment";
  if (line.startsWith("+")) return "add";
  return line.startsWith("-") ? "remove" : "";
}
