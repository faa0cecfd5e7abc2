/** Markdown that arrives in pieces: each piece costs what it brings, not what came before it. */

import { BlockParser, PIECE_CHARS_MAX } from "./blocks.ts";
import { cellsOf } from "./lines.ts";
import type { Block, Paragraph } from "./nodes.ts";
import { harmless } from "./safe.ts";

// a line is taken as one when it gets this long, and what follows is added to it
const LINE_CHARS_MAX = 16_384;
// a line that is nothing but a marker yet: what it begins is only known by what comes next
const UNDECIDED =
  /^[ \t]*(?:>[ \t]*)*(?:[-+*][ \t]+\[[ xX]?\]?|[-+*=_~#|`$]{1,3}|\\\[?|\[\^[^\]\s]*\]?:?|<\/?[a-z]{0,7}|\d{1,9}[.)])?[ \t]*$/i;
const TABLE_LINE_BEGUN = /^[ \t]*[|:-][-:| \t]*$/;

/** The blocks; the first `settled` of them no longer change, and `open` is the paragraph at whose end more comes. */
export type Snapshot = {
  readonly blocks: readonly Block[];
  readonly settled: number;
  readonly open: Paragraph | null;
};

export class MarkdownStream {
  #parser = new BlockParser();
  #line = "";
  #long = false;
  #held = "";
  #ended = false;
  /** How long the open paragraph of the last snapshot is by now; 0 if there is none. */
  #openChars = 0;

  /** More of the text, if all that it does is to lengthen the open paragraph of the last snapshot: by what comes back.
   *
   * A line that has a letter is what it is, so that only a line break can make something else of it.
   */
  lengthen(text: string): string | null {
    const chars = this.#openChars + text.length;
    if (this.#openChars === 0 || chars >= PIECE_CHARS_MAX || /[\r\n]/.test(text)) return null;
    if (this.#line.length + text.length >= LINE_CHARS_MAX || !/\p{L}/u.test(this.#line)) return null;
    const fresh = harmless(text);
    this.#line += fresh;
    this.#openChars += fresh.length;
    return fresh;
  }

  /** More of the text. */
  push(text: string): void {
    let fresh = this.#held + text;
    // a carriage return may be half of a line break
    this.#held = fresh.endsWith("\r") ? "\r" : "";
    if (this.#held !== "") fresh = fresh.slice(0, -1);
    this.#take(harmless(fresh));
  }

  /** Nothing more comes: what was undecided is decided. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    if (this.#held !== "") this.#take("\n");
    if (this.#line !== "") this.#parser.line(this.#line);
    this.#line = "";
    this.#parser.close();
  }

  /** The blocks so far; the first `settled` of them are the same objects in every later snapshot. */
  snapshot(): Snapshot {
    const settled = this.#parser.settled;
    this.#openChars = 0;
    if (this.#ended) return { blocks: this.#parser.blocks, settled, open: null };
    let open: Paragraph | null = null;
    const fork = this.#parser.fork();
    const head = fork.maybeTableHead;
    if (head !== "" && TABLE_LINE_BEGUN.test(this.#line || "|")) {
      fork.line(
        `|${cellsOf(head)
          .map(() => "-")
          .join("|")}|`,
      );
    } else if (!UNDECIDED.test(this.#line)) {
      fork.line(this.#line);
      open = fork.openParagraph;
      this.#openChars = open?.text.length ?? 0;
    }
    return { blocks: fork.blocks, settled, open };
  }

  #take(text: string): void {
    let begin = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", begin)) {
      this.#more(text.slice(begin, end));
      if (!this.#long) this.#parser.line(this.#line);
      this.#line = "";
      this.#long = false;
      begin = end + 1;
    }
    this.#more(text.slice(begin));
  }

  #more(text: string): void {
    if (this.#long) {
      this.#parser.extend(text);
      return;
    }
    this.#line += text;
    if (this.#line.length < LINE_CHARS_MAX) return;
    const rest = this.#line.slice(LINE_CHARS_MAX);
    this.#parser.line(this.#line.slice(0, LINE_CHARS_MAX));
    this.#line = "";
    this.#long = true;
    if (rest !== "") this.#parser.extend(rest);
  }
}

/** The blocks of a whole text. */
export function parseBlocks(text: string): readonly Block[] {
  const stream = new MarkdownStream();
  stream.push(text);
  stream.end();
  return stream.snapshot().blocks;
}
