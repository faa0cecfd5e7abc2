/** Running text that grows: what can no longer change is parsed once, and only the rest again with each piece. */

import { parseClosed, parseGrowing, parseInline } from "./inline.ts";
import type { Inline } from "./nodes.ts";

// less than this is parsed again faster than it is cut
const REST_CHARS = 120;
const AGAIN_CHARS = 48;

export class GrowingText {
  /** The parts that stay as they are; only more are added to them. */
  readonly settled: Inline[] = [];
  #prefix = "";
  #tryAt = REST_CHARS;

  /** Whether the text begins with what is settled. */
  leadsTo(text: string): boolean {
    return text.startsWith(this.#prefix);
  }

  /** The parts of what follows the settled parts, as the text is now. */
  grow(text: string): Inline[] {
    if (text.length - this.#prefix.length >= this.#tryAt) this.#settle(text.slice(this.#prefix.length));
    return parseGrowing(text.slice(this.#prefix.length));
  }

  /** The same for a text that is complete. */
  end(text: string): Inline[] {
    return parseInline(text.slice(this.#prefix.length));
  }

  /** Cuts before the last word, if all before it is closed. */
  #settle(rest: string): void {
    const at = 1 + rest.trimEnd().lastIndexOf(" ");
    const parts = /^\S/.test(rest.slice(at, at + 1)) ? parseClosed(rest.slice(0, at)) : null;
    if (parts === null || at === 0) {
      this.#tryAt = rest.length + AGAIN_CHARS;
      return;
    }
    this.settled.push(...parts);
    this.#prefix += rest.slice(0, at);
    this.#tryAt = REST_CHARS;
  }
}
