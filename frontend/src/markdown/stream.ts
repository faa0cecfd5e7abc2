/** Markdown that arrives in pieces: each piece costs what it brings, not what came before it. */

import { BlockParser } from "./blocks.ts";
import { cellsOf } from "./lines.ts";
import type { Block } from "./nodes.ts";
import { harmless } from "./safe.ts";

// a line is taken as one when it gets this long, and what follows is added to it
const LINE_CHARS_MAX = 16_384;
// a line that is nothing but a marker yet: what it begins is only known by what comes next
const UNDECIDED = /^[ \t]*(?:>[ \t]*)*(?:[-+*][ \t]+\[[ xX]?\]?|[-+*=_~#|`]{1,3}|\d{1,9}[.)])?[ \t]*$/;
const TABLE_LINE_BEGUN = /^[ \t]*[|:-][-:| \t]*$/;

export type Snapshot = { readonly blocks: readonly Block[]; readonly settled: number };

export class MarkdownStream {
  #parser = new BlockParser();
  #line = "";
  #long = false;
  #held = "";
  #ended = false;

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
    if (this.#ended) return { blocks: this.#parser.blocks, settled };
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
    }
    return { blocks: fork.blocks, settled };
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
