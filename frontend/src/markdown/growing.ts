/** Running text that grows: what can no longer change is parsed once, and plain words are not parsed at all. */

import { isPlain, parseClosed, parseGrowing, parseInline } from "./inline.ts";
import type { Inline } from "./nodes.ts";

// what could not be cut is tried again when it is longer by this
const AGAIN_CHARS = 48;
// the longest sign that has a meaning may begin before the words that complete it
const SIGN_CHARS = 8;

export class GrowingText {
  /** The parts that stay as they are; only more are added to them. */
  readonly settled: Inline[] = [];
  #prefix = "";
  #tryAt = 0;
  /** How long the text is, if all of it behind the prefix is one part of plain words; else 0. */
  #plainChars = 0;

  /** Whether the text begins with what is settled. */
  leadsTo(text: string): boolean {
    return text.startsWith(this.#prefix);
  }

  /** The words by which the last part is longer, if nothing else changes; else null. */
  lengthen(text: string): string | null {
    const from = this.#plainChars;
    if (from === 0 || !isPlain(text.slice(Math.max(0, from - SIGN_CHARS)))) return null;
    this.#plainChars = text.length;
    return text.slice(from);
  }

  /** The parts of what follows the settled parts, as the text is now. */
  grow(text: string): Inline[] {
    if (text.length - this.#prefix.length >= this.#tryAt) this.#settle(text.slice(this.#prefix.length));
    const rest = text.slice(this.#prefix.length);
    this.#plainChars = rest !== "" && isPlain(rest) ? text.length : 0;
    return parseGrowing(rest);
  }

  /** The same for a text that is complete. */
  end(text: string): Inline[] {
    return parseInline(text.slice(this.#prefix.length));
  }

  /** Cuts before the last word, if all before it is closed. */
  #settle(rest: string): void {
    const at = 1 + rest.trimEnd().lastIndexOf(" ");
    const parts = at > 0 && /^\S/.test(rest.slice(at, at + 1)) ? parseClosed(rest.slice(0, at)) : null;
    if (parts === null) {
      this.#tryAt = rest.length + (at > 0 ? AGAIN_CHARS : 0);
      return;
    }
    this.settled.push(...parts);
    this.#prefix += rest.slice(0, at);
    this.#tryAt = 0;
  }
}
