/** The inline parts of a stretch of markdown: emphasis, code, links, images, breaks; all else is text. */

import { delimiters, finished, joined, type Piece, type Tail } from "./emphasis.ts";
import { angledAt, bareAt, hostAt, isMail, targetAt } from "./links.ts";
import { mathsAt } from "./maths.ts";
import type { Inline } from "./nodes.ts";
import { inlineImage, safeHref } from "./safe.ts";

const SPECIAL = /[\\`*_~[\]!<&@$\n]|https?:\/\/|www\./gi;
const ESCAPED = /[!-/:-@[-`{-~]/;
const ENTITY = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]{2,8}));/y;
const BREAK_TAG = /<br\s{0,4}\/?>/iy;
const NOTE = /\[\^([^\]\s]{1,40})\](?!\()/y;
// what is in formulas and hardly ever in prose
const TEX = /\\[a-z,;!]|[\^_{}]/i;
const BREAK_BEGUN = /<br\s{0,4}$/i;
const NAMED: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  copy: "\u00a9",
  reg: "\u00ae",
  trade: "\u2122",
  hellip: "\u2026",
  mdash: "\u2014",
  ndash: "\u2013",
  lsquo: "\u2018",
  rsquo: "\u2019",
  ldquo: "\u201c",
  rdquo: "\u201d",
  times: "\u00d7",
  middot: "\u00b7",
  bull: "\u2022",
  deg: "\u00b0",
  euro: "\u20ac",
  larr: "\u2190",
  rarr: "\u2192",
  ge: "\u2265",
  le: "\u2264",
};

type Bracket = { place: number; image: boolean; from: number };

/** Whether a text holds no sign that could make something else of it than these very words. */
export function isPlain(text: string): boolean {
  return text.search(SPECIAL) < 0;
}

/** The parts of a text that is complete. */
export function parseInline(text: string): Inline[] {
  return new InlineParser(text, "settled").parse() ?? [];
}

/** The parts of a text that goes on: what is open at its end is shown as if it were closed there. */
export function parseGrowing(text: string): Inline[] {
  return new InlineParser(text, "growing").parse() ?? [];
}

/** The parts of a text that other text may follow; null if something in it is open that this might close. */
export function parseClosed(text: string): Inline[] | null {
  return new InlineParser(text, "closed").parse();
}

/** What a reader would read aloud: the parts without their marks. */
export function plainText(parts: readonly Inline[]): string {
  return parts
    .map((part) => {
      if (part.kind === "text" || part.kind === "code") return part.text;
      if (part.kind === "image") return part.alt;
      if (part.kind === "maths") return part.source;
      if (part.kind === "note") return `[^${part.label}]`;
      return part.kind === "break" ? "\n" : plainText(part.children);
    })
    .join("");
}

class InlineParser {
  readonly #text: string;
  readonly #tail: Tail;
  #isOpen = false;
  #at = 0;
  #pieces: Piece[] = [];
  #brackets: Bracket[] = [];
  // the last place of a run of so many backticks, so that a search for one that is not there happens once
  #lastTicks: Map<number, number> | null = null;
  readonly #lastSigns = new Map<string, number>();

  constructor(text: string, tail: Tail) {
    this.#text = text;
    this.#tail = tail;
  }

  /** The parts; null only for a text that should be closed and is not. */
  parse(): Inline[] | null {
    const text = this.#text;
    const special = new RegExp(SPECIAL);
    while (this.#at < text.length) {
      special.lastIndex = this.#at;
      const found = special.exec(text);
      if (found === null) {
        this.#say(text.slice(this.#at));
        break;
      }
      if (found.index > this.#at) this.#say(text.slice(this.#at, found.index));
      this.#at = found.index;
      this.#step(found[0]);
    }
    if (this.#tail === "closed" && (this.#isOpen || this.#brackets.length > 0 || BREAK_BEGUN.test(text))) {
      return null;
    }
    return joined(this.#pieces, this.#tail);
  }

  #say(text: string): void {
    this.#pieces.push(finished({ kind: "text", text }));
  }

  #put(node: Inline, end: number): void {
    this.#pieces.push(finished(node));
    this.#at = end;
  }

  #step(sign: string): void {
    switch (sign) {
      case "\\":
        return this.#escape();
      case "`":
        return this.#code();
      case "*":
      case "_":
      case "~":
        return this.#delimiters(sign);
      case "$":
        return this.#maths() ? undefined : this.#literal(runLength(this.#text, this.#at));
      case "[":
        return this.#note() ? undefined : this.#open(1, "link");
      case "!":
        return this.#text[this.#at + 1] === "[" ? this.#open(2, "image") : this.#literal(1);
      case "]":
        return this.#close();
      case "<":
        return this.#angled();
      case "&":
        return this.#entity();
      case "@":
        return this.#mail();
      case "\n":
        return this.#break();
      default:
        return this.#bare();
    }
  }

  #literal(length: number): void {
    this.#say(this.#text.slice(this.#at, this.#at + length));
    this.#at += length;
  }

  #lastOf = (sign: string): number => {
    const known = this.#lastSigns.get(sign) ?? this.#text.lastIndexOf(sign);
    this.#lastSigns.set(sign, known);
    return known;
  };

  /** Puts maths if it is here and closed; what is still open stays as it is written. */
  #maths(): boolean {
    const found = mathsAt(this.#text, this.#at, { tail: this.#tail, lastOf: this.#lastOf });
    if (found === null) return false;
    if (found === "open") {
      this.#isOpen = true;
      const rest = this.#text.slice(this.#at);
      const isSource = !/^\$(?!\$)/.test(rest) && (this.#tail === "growing" || TEX.test(rest.slice(2)));
      if (isSource) this.#literal(rest.length);
      return isSource;
    }
    this.#put(found, this.#at + found.source.length);
    return true;
  }

  /** A reference to a footnote. */
  #note(): boolean {
    NOTE.lastIndex = this.#at;
    const found = NOTE.exec(this.#text);
    if (found === null) return false;
    this.#put({ kind: "note", label: found[1] ?? "" }, NOTE.lastIndex);
    return true;
  }

  #escape(): void {
    const next = this.#text[this.#at + 1] ?? "";
    if ((next === "(" || next === "[") && this.#maths()) return;
    if (next === "\n") {
      this.#at += 1;
      this.#break();
    } else if (ESCAPED.test(next)) {
      this.#say(next);
      this.#at += 2;
    } else this.#literal(1);
  }

  #break(): void {
    const last = this.#pieces[this.#pieces.length - 1];
    if (last?.node?.kind === "text") last.node.text = last.node.text.trimEnd();
    let end = this.#at + 1;
    while (this.#text[end] === " ") end += 1;
    this.#put({ kind: "break" }, end);
  }

  #code(): void {
    const text = this.#text;
    const length = runLength(text, this.#at);
    const from = this.#at + length;
    if ((this.#ticks().get(length) ?? -1) < from) return this.#openCode(length, from);
    for (let at = text.indexOf("`", from); at >= 0; ) {
      const run = runLength(text, at);
      if (run === length) {
        this.#put({ kind: "code", text: codeText(text.slice(from, at)) }, at + run);
        return;
      }
      at = text.indexOf("`", at + run);
    }
  }

  #openCode(length: number, from: number): void {
    const rest = this.#text.slice(from);
    this.#isOpen = true;
    if (this.#tail !== "growing" || length > 2 || rest.includes("\n")) return this.#literal(length);
    if (rest.trim() === "") this.#at = this.#text.length;
    else this.#put({ kind: "code", text: codeText(rest) }, this.#text.length);
  }

  #ticks(): Map<number, number> {
    if (this.#lastTicks !== null) return this.#lastTicks;
    const last = new Map<number, number>();
    for (let at = this.#text.indexOf("`"); at >= 0; ) {
      const length = runLength(this.#text, at);
      last.set(length, at);
      at = this.#text.indexOf("`", at + length);
    }
    this.#lastTicks = last;
    return last;
  }

  #delimiters(sign: string): void {
    const count = runLength(this.#text, this.#at);
    const before = charBefore(this.#text, this.#at);
    const after = charAt(this.#text, this.#at + count);
    // a star at the very end of a text that goes on is about to open something
    const opening =
      this.#tail === "growing" && after === "" && sign !== "_" && (before === "" || /\s/.test(before));
    if (!opening) this.#pieces.push(delimiters(sign, count, { before, after }));
    this.#at += count;
  }

  #open(length: number, what: "link" | "image"): void {
    this.#brackets.push({ place: this.#pieces.length, image: what === "image", from: this.#at + length });
    this.#literal(length);
  }

  #close(): void {
    const bracket = this.#brackets.pop();
    if (bracket === undefined || this.#text[this.#at + 1] !== "(") return this.#literal(1);
    const target = targetAt(this.#text, this.#at + 1);
    this.#isOpen ||= target === "open";
    if (target === null || (target === "open" && this.#tail !== "growing")) return this.#literal(1);
    const label = this.#text.slice(bracket.from, this.#at);
    const inner = this.#pieces.splice(bracket.place).slice(1);
    const depth = inner.reduce((deepest, piece) => Math.max(deepest, piece.depth), 0);
    const children = joined(inner, "settled") ?? [];
    this.#at = target === "open" ? this.#text.length : target.end;
    if (bracket.image) {
      const src = target === "open" ? "" : inlineImage(target.href) || safeHref(target.href);
      this.#pieces.push(
        finished(
          src === ""
            ? { kind: "text", text: plainText(children) }
            : { kind: "image", src, alt: plainText(children) || label },
        ),
      );
      return;
    }
    const href = target === "open" ? "" : safeHref(target.href);
    if (href === "") for (const child of children) this.#pieces.push(finished(child, depth));
    else this.#pieces.push(finished({ kind: "link", href, children: withoutLinks(children) }, depth + 1));
    // links do not stand inside links
    this.#brackets = this.#brackets.filter((each) => each.image);
  }

  #angled(): void {
    BREAK_TAG.lastIndex = this.#at;
    const tag = BREAK_TAG.exec(this.#text);
    if (tag !== null) {
      this.#break();
      this.#at = tag.index + tag[0].length;
      return;
    }
    const address = angledAt(this.#text, this.#at);
    const href = safeHref(isMail(address) ? `mailto:${address}` : address);
    if (href === "") return this.#literal(1);
    this.#put(
      { kind: "link", href, children: [{ kind: "text", text: address }] },
      this.#at + address.length + 2,
    );
  }

  #entity(): void {
    ENTITY.lastIndex = this.#at;
    const found = ENTITY.exec(this.#text);
    const char = found === null ? "" : entityText(found);
    if (found === null || char === "") return this.#literal(1);
    this.#say(char);
    this.#at += found[0].length;
  }

  /** A bare mail address; its first part was already taken as text. */
  #mail(): void {
    const last = this.#pieces[this.#pieces.length - 1]?.node;
    const before = last?.kind === "text" ? (/[\w.+-]{1,64}$/.exec(last.text.slice(-65))?.[0] ?? "") : "";
    const host = before === "" ? "" : hostAt(this.#text, this.#at + 1);
    if (last?.kind !== "text" || host === "") return this.#literal(1);
    last.text = last.text.slice(0, last.text.length - before.length);
    const text = `${before}@${host}`;
    this.#put(
      { kind: "link", href: `mailto:${text}`, children: [{ kind: "text", text }] },
      this.#at + 1 + host.length,
    );
  }

  #bare(): void {
    const inWord = /[\p{L}\p{N}]/u.test(charBefore(this.#text, this.#at));
    const found = inWord ? "" : bareAt(this.#text, this.#at);
    // inside brackets the address ends with them, since they may be those of a link
    const bracket = this.#brackets.length > 0 ? found.indexOf("]") : -1;
    const address = bracket < 0 ? found : found.slice(0, bracket);
    const href = safeHref(/^www\./i.test(address) ? `https://${address}` : address);
    if (href === "") return this.#literal(address.length || 4);
    this.#put({ kind: "link", href, children: [{ kind: "text", text: address }] }, this.#at + address.length);
  }
}

function runLength(text: string, at: number): number {
  let end = at + 1;
  while (text[end] === text[at]) end += 1;
  return end - at;
}

function charAt(text: string, at: number): string {
  const code = text.codePointAt(at);
  return code === undefined ? "" : String.fromCodePoint(code);
}

function charBefore(text: string, at: number): string {
  if (at === 0) return "";
  const last = text.charCodeAt(at - 1);
  return last >= 0xdc00 && last <= 0xdfff && at > 1 ? text.slice(at - 2, at) : text.slice(at - 1, at);
}

function codeText(raw: string): string {
  const text = raw.replaceAll("\n", " ");
  const padded = text.startsWith(" ") && text.endsWith(" ") && text.trim() !== "";
  return padded ? text.slice(1, -1) : text;
}

function entityText(found: RegExpExecArray): string {
  if (found[3] !== undefined) return NAMED[found[3]] ?? "";
  const code = found[1] !== undefined ? Number(found[1]) : Number.parseInt(found[2] ?? "", 16);
  // an entity must not bring in what the text itself may not hold
  const fine =
    code >= 0x20 && code <= 0x10ffff && !(code >= 0x7f && code < 0xa0) && !(code >= 0xd800 && code <= 0xdfff);
  const turning = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return fine && !turning ? String.fromCodePoint(code) : "\ufffd";
}

function withoutLinks(parts: Inline[]): Inline[] {
  return parts.flatMap((part) => {
    if (part.kind === "link") return withoutLinks(part.children);
    return "children" in part ? [{ ...part, children: withoutLinks(part.children) }] : [part];
  });
}
