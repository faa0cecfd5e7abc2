/** Which stars, underscores and tildes belong together: CommonMark's rules, in time linear in the pieces. */

import type { Inline } from "./nodes.ts";

const DEPTH_MAX = 24;
const RUN_CHARS_MAX = 12;

/** A stretch of delimiters, or a finished inline part; `depth` is how deep it is nested. */
export type Piece = {
  node: Inline | null;
  sign: string;
  count: number;
  opens: boolean;
  closes: boolean;
  depth: number;
};

const WORDY = /[\p{L}\p{N}]/u;

export function finished(node: Inline, depth = 0): Piece {
  return { node, sign: "", count: 0, opens: false, closes: false, depth };
}

/** A run of `count` signs between the characters `before` and `after` ("" is the edge of the text). */
export function delimiters(sign: string, count: number, around: { before: string; after: string }): Piece {
  const { before, after } = around;
  const spaceBefore = before === "" || /\s/.test(before);
  const spaceAfter = after === "" || /\s/.test(after);
  const signBefore = !spaceBefore && !WORDY.test(before);
  const signAfter = !spaceAfter && !WORDY.test(after);
  const left = !spaceAfter && (!signAfter || spaceBefore || signBefore);
  const right = !spaceBefore && (!signBefore || spaceAfter || signAfter);
  const usable = count <= RUN_CHARS_MAX && (sign !== "~" || count <= 2);
  const opens = usable && left && (sign !== "_" || !right || signBefore);
  const closes = usable && right && (sign !== "_" || !left || signAfter);
  return { node: null, sign, count, opens, closes, depth: 0 };
}

/** What becomes of openers without a closer: plain text, parts that reach to the end, or there must be none. */
export type Tail = "settled" | "growing" | "closed";

/** The parts that the pieces make; null if something is open that must not be. */
export function joined(pieces: Piece[], tail: Tail): Inline[] | null {
  const done: Piece[] = [];
  const openers: number[] = []; // places in `done`
  // below these sizes of the opener stack a search for such an opener failed before
  const bottoms = new Map<string, number>();
  for (const piece of pieces) {
    if (piece.node !== null) {
      done.push(piece);
      continue;
    }
    if (piece.closes) closeWith(piece, { done, openers, bottoms });
    if (piece.count === 0) continue;
    if (piece.opens) openers.push(done.length);
    done.push(piece);
  }
  if (tail === "growing") closeAtEnd(done, openers);
  return tail === "closed" && openers.length > 0 ? null : merged(done);
}

type Work = { done: Piece[]; openers: number[]; bottoms: Map<string, number> };

function closeWith(closer: Piece, work: Work): void {
  const { done, openers, bottoms } = work;
  while (closer.count > 0) {
    const key = `${closer.sign}${closer.opens ? closer.count % 3 : 3}`;
    const bottom = bottoms.get(key) ?? 0;
    let at = openers.length - 1;
    while (at >= bottom && !pairs(done[openers[at] ?? 0] as Piece, closer)) at -= 1;
    if (at < bottom) {
      bottoms.set(key, openers.length);
      return;
    }
    const place = openers[at] as number;
    openers.length = at;
    // a search that failed above this opener says nothing about what comes below it now
    for (const [name, size] of bottoms) if (size > at) bottoms.set(name, at);
    const opener = done[place] as Piece;
    const used = Math.min(opener.count, closer.count) >= 2 ? 2 : 1;
    wrap(done, place, used);
    closer.count -= used;
    opener.count -= used;
    if (opener.count > 0) openers.push(place);
  }
}

function pairs(opener: Piece, closer: Piece): boolean {
  if (opener.sign !== closer.sign) return false;
  if (closer.sign === "~") return opener.count === closer.count;
  const odd = (opener.closes || closer.opens) && (opener.count + closer.count) % 3 === 0;
  return !odd || (opener.count % 3 === 0 && closer.count % 3 === 0);
}

/** Everything behind the opener at `place` becomes one part, in place of `used` of its signs. */
function wrap(done: Piece[], place: number, used: number): void {
  const opener = done[place] as Piece;
  const inner = done.splice(opener.count > used ? place + 1 : place);
  if (opener.count <= used) inner.shift();
  const depth = 1 + inner.reduce((deepest, piece) => Math.max(deepest, piece.depth), 0);
  const children = merged(inner);
  const kind = opener.sign === "~" ? "strike" : used === 2 ? "strong" : "em";
  if (depth > DEPTH_MAX) for (const child of children) done.push(finished(child, depth - 1));
  else done.push(finished({ kind, children }, depth));
}

function closeAtEnd(done: Piece[], openers: number[]): void {
  for (let at = openers.length - 1; at >= 0; at--) {
    const place = openers[at] as number;
    const opener = done[place] as Piece;
    if (opener.sign === "_" || (opener.sign === "~" && opener.count < 2)) continue;
    if (place === done.length - 1) done.pop();
    else {
      wrap(done, place, Math.min(opener.count, 2));
      opener.count = 0;
    }
  }
}

/** The pieces as parts: signs that found no partner are text, and texts side by side are one. */
function merged(pieces: Piece[]): Inline[] {
  const parts: Inline[] = [];
  let text: string[] = [];
  const flush = () => {
    if (text.length > 0) parts.push({ kind: "text", text: text.join("") });
    text = [];
  };
  for (const piece of pieces) {
    if (piece.node === null) text.push(piece.sign.repeat(piece.count));
    else if (piece.node.kind === "text") text.push(piece.node.text);
    else {
      flush();
      parts.push(piece.node);
    }
  }
  flush();
  return parts;
}
