/** Markdown blocks, line by line: a line is looked at once, and a block that is closed never changes again. */

import {
  alignmentsOf,
  cellsOf,
  closesDetails,
  closesFence,
  detailsRest,
  type Fence,
  fenceOf,
  headingOf,
  indentOf,
  isBlank,
  isRule,
  type ListMarker,
  listMarkerOf,
  noteOf,
  quoteRest,
  summaryOf,
  TAB_COLUMNS,
  underlineOf,
  unindent,
} from "./lines.ts";
import { mathsBlockEnd, mathsBlockOf } from "./maths.ts";
import type { Block, Code, Details, Item, List, MathsBlock, Note, Paragraph, Quote, Table } from "./nodes.ts";

const DEPTH_MAX = 24;
// a paragraph is cut to pieces of this size, so that its inline parts cost the same however long it gets
export const PIECE_CHARS_MAX = 16_384;
const PIECE_CHARS_MIN = 8_192;

type OpenTable = Table & { rows: (readonly string[])[] };
type OpenCode = Code & { fence: Fence | null; lines: number; blanks: number };
type Leaf = Paragraph | OpenCode | OpenTable | MathsBlock;
type Frame =
  | { kind: "root"; children: Block[] }
  | { kind: "quote"; children: Block[]; node: Quote }
  | { kind: "note"; children: Block[]; node: Note }
  | { kind: "details"; children: Block[]; node: Details }
  | { kind: "item"; children: Block[]; node: Item; width: number }
  | { kind: "list"; children: Item[]; node: List; sign: string; sawBlank: boolean };

export class BlockParser {
  #stack: Frame[] = [{ kind: "root", children: [] }];
  #leaf: Leaf | null = null;

  get blocks(): readonly Block[] {
    return this.#root;
  }

  /** How many of the blocks can no longer change. */
  get settled(): number {
    return this.#root.length - (this.#stack.length > 1 || this.#leaf !== null ? 1 : 0);
  }

  /** The paragraph that is still open, if one is. */
  get openParagraph(): Paragraph | null {
    return this.#leaf?.kind === "paragraph" ? this.#leaf : null;
  }

  /** The open leaf if it is a paragraph of one line that may yet turn out to be the head of a table. */
  get maybeTableHead(): string {
    const leaf = this.#leaf;
    if (leaf?.kind !== "paragraph" || leaf.settled.length > 0 || leaf.text.includes("\n")) return "";
    return leaf.text.startsWith("|") && leaf.text.trimEnd().endsWith("|") ? leaf.text : "";
  }

  get #root(): Block[] {
    return (this.#stack[0] as Frame & { kind: "root" }).children;
  }

  get #top(): Frame {
    return this.#stack[this.#stack.length - 1] as Frame;
  }

  /** A parser that goes on by itself: what is closed is shared, what is open is its own. */
  fork(): BlockParser {
    const fork = new BlockParser();
    fork.#stack = [];
    let parent: (Block | Item)[] | null = null;
    for (const frame of this.#stack) {
      const copy = copied(frame);
      if (parent !== null && copy.kind !== "root") parent[parent.length - 1] = copy.node;
      fork.#stack.push(copy);
      parent = copy.children as (Block | Item)[];
    }
    if (this.#leaf !== null && parent !== null) {
      fork.#leaf =
        this.#leaf.kind === "table" ? { ...this.#leaf, rows: this.#leaf.rows.slice() } : { ...this.#leaf };
      parent[parent.length - 1] = fork.#leaf;
    }
    return fork;
  }

  /** One whole line, without its line break. */
  line(line: string): void {
    let rest = line;
    let depth = 1;
    for (; depth < this.#stack.length; depth++) {
      const inner = insideOf(this.#stack[depth] as Frame, rest);
      if (inner === null) break;
      rest = inner;
    }
    const whole = depth === this.#stack.length;
    if (whole && this.#leaf?.kind === "code" && this.#codeLine(this.#leaf, rest)) return;
    if (whole && this.#leaf?.kind === "maths" && !isBlank(rest)) return this.#mathsLine(this.#leaf, rest);
    if (closesDetails(rest) && this.#closeDetails(depth)) return;
    if (isBlank(rest)) this.#blankLine(depth);
    else this.#textLine(rest, depth);
  }

  /** More of a line whose beginning was long enough to be taken as a line. */
  extend(text: string): void {
    if (this.#leaf?.kind === "paragraph") grow(this.#leaf, text);
    else if (this.#leaf?.kind === "code" || this.#leaf?.kind === "maths") this.#leaf.text += text;
    else this.#openParagraph(text);
  }

  /** Nothing more comes. */
  close(): void {
    this.#closeTo(1);
  }

  #codeLine(leaf: OpenCode, rest: string): boolean {
    if (leaf.fence !== null) {
      if (closesFence(rest, leaf.fence)) this.#closeLeaf();
      else addCodeLine(leaf, unindent(rest, leaf.fence.indent));
      return true;
    }
    if (isBlank(rest)) {
      leaf.blanks += 1;
      return true;
    }
    if (indentOf(rest) < TAB_COLUMNS) return false;
    for (; leaf.blanks > 0; leaf.blanks--) addCodeLine(leaf, "");
    addCodeLine(leaf, unindent(rest, TAB_COLUMNS));
    return true;
  }

  #mathsLine(leaf: MathsBlock, rest: string): void {
    const end = mathsBlockEnd(rest, leaf.opener);
    leaf.text += `\n${end < 0 ? rest : rest.slice(0, end)}`;
    if (end < 0) return;
    leaf.closed = true;
    this.#closeLeaf();
    if (!isBlank(rest.slice(end))) this.#openParagraph(rest.slice(end).trimStart());
  }

  #closeDetails(depth: number): boolean {
    const at = this.#stack.slice(0, depth).findLastIndex((frame) => frame.kind === "details");
    if (at > 0) this.#closeTo(at);
    return at > 0;
  }

  #blankLine(depth: number): void {
    this.#closeTo(depth);
    for (const frame of this.#stack) if (frame.kind === "list") frame.sawBlank = true;
  }

  #textLine(line: string, matched: number): void {
    let rest = line;
    let depth = matched;
    let opened = false;
    // the paragraph that this line would interrupt
    const open = () => (opened || this.#leaf?.kind !== "paragraph" ? null : this.#leaf);
    while (!isBlank(rest) && this.#stack.length < DEPTH_MAX && indentOf(rest) < TAB_COLUMNS) {
      const inner = this.#pushInner(rest, depth);
      if (inner !== null) rest = inner;
      else {
        const marker = isRule(rest) ? null : listMarkerOf(rest);
        if (marker === null || (open() !== null && !mayInterrupt(marker, this.#listAt(depth)))) break;
        this.#pushItem(depth, marker);
        rest = this.#taskOf(marker.rest);
      }
      opened = true;
      depth = this.#stack.length;
    }
    if (opened && isBlank(rest)) return;
    const frame = this.#stack[depth - 1];
    const summary = frame?.kind === "details" && frame.children.length === 0 ? summaryOf(rest) : null;
    if (frame?.kind === "details" && summary !== null) frame.node.summary = summary;
    else this.#leafLine(rest, depth, open());
  }

  #leafLine(rest: string, depth: number, interrupted: Paragraph | null): void {
    const whole = depth === this.#stack.length;
    if (indentOf(rest) >= TAB_COLUMNS) {
      if (interrupted !== null) grow(interrupted, `\n${rest.trimStart()}`);
      else if (whole && this.#leaf?.kind === "table") addRow(this.#leaf, rest);
      else this.#openCode(rest, depth, null);
      return;
    }
    if (interrupted !== null && whole && this.#turned(interrupted, rest)) return;
    const heading = headingOf(rest);
    if (heading !== null) return this.#add(depth, { kind: "heading", ...heading });
    const fence = fenceOf(rest);
    if (fence !== null) return this.#openCode("", depth, fence);
    const maths = mathsBlockOf(rest);
    if (maths !== null) return this.#openMaths(rest.trimStart(), depth, maths);
    if (isRule(rest)) return this.#add(depth, { kind: "rule" });
    if (interrupted !== null) return grow(interrupted, `\n${rest.trimStart()}`);
    if (whole && this.#leaf?.kind === "table") return addRow(this.#leaf, rest);
    this.#closeTo(depth);
    this.#openParagraph(rest.trimStart());
  }

  /** A line that makes something else of the paragraph above it: a heading or a table. */
  #turned(paragraph: Paragraph, rest: string): boolean {
    const aligns = alignmentsOf(rest);
    const before = paragraph.text.lastIndexOf("\n");
    const head = aligns === null ? [] : cellsOf(paragraph.text.slice(before + 1));
    if (aligns !== null && aligns.length === head.length && paragraph.text.includes("|", before + 1)) {
      const children = this.#top.children as Block[];
      if (before < 0 && paragraph.settled.length === 0) children.pop();
      else paragraph.text = paragraph.text.slice(0, Math.max(0, before)).trimEnd();
      this.#leaf = { kind: "table", align: aligns, head, rows: [] };
      children.push(this.#leaf);
      return true;
    }
    const level = underlineOf(rest);
    if (level === 0 || paragraph.settled.length > 0) return false;
    (this.#top.children as Block[])[this.#top.children.length - 1] = {
      kind: "heading",
      level,
      text: paragraph.text,
    };
    this.#leaf = null;
    return true;
  }

  #listAt(depth: number): (Frame & { kind: "list" }) | null {
    const frame = this.#stack[depth - 1];
    return frame?.kind === "list" ? frame : null;
  }

  /** Opens a quote, a footnote or a part that folds; what is left of the line is inside of it. */
  #pushInner(line: string, depth: number): string | null {
    const children: Block[] = [];
    const quoted = quoteRest(line);
    const note = noteOf(line);
    const folded = detailsRest(line);
    let frame: Frame & { kind: "quote" | "note" | "details" };
    if (quoted !== null) frame = { kind: "quote", children, node: { kind: "quote", children } };
    else if (note !== null)
      frame = { kind: "note", children, node: { kind: "note", label: note.label, children } };
    else if (folded !== null)
      frame = { kind: "details", children, node: { kind: "details", summary: "", children } };
    else return null;
    this.#add(depth, frame.node);
    this.#stack.push(frame);
    return quoted ?? note?.rest ?? folded;
  }

  #pushItem(depth: number, marker: ListMarker): void {
    let list = this.#listAt(depth);
    if (list !== null && list.sign === marker.sign) {
      this.#closeTo(depth);
      if (list.sawBlank) list.node.loose = true;
    } else {
      const children: Item[] = [];
      const node: List = {
        kind: "list",
        ordered: marker.ordered,
        start: marker.start,
        loose: false,
        children,
      };
      this.#add(depth, node);
      list = { kind: "list", children, node, sign: marker.sign, sawBlank: false };
      this.#stack.push(list);
    }
    list.sawBlank = false;
    const children: Block[] = [];
    const item: Item = { kind: "item", task: "", children };
    list.children.push(item);
    this.#stack.push({ kind: "item", children, node: item, width: marker.width });
  }

  #taskOf(rest: string): string {
    const found = /^\[([ xX])\](?:[ \t]+|$)/.exec(rest);
    const frame = this.#top;
    if (found === null || frame.kind !== "item") return rest;
    frame.node.task = found[1] === " " ? "todo" : "done";
    return rest.slice(found[0].length);
  }

  /** A block takes its place inside the frame at `depth - 1`, and what was open below it is closed. */
  #add(depth: number, block: Block): void {
    this.#closeTo(depth);
    while (this.#top.kind === "list") this.#stack.pop();
    const frame = this.#top as Exclude<Frame, { kind: "list" }>;
    if (frame.kind === "item" && frame.children.length > 0) {
      const list = this.#stack[this.#stack.length - 2];
      if (list?.kind === "list" && list.sawBlank) list.node.loose = true;
    }
    for (const each of this.#stack) if (each.kind === "list") each.sawBlank = false;
    frame.children.push(block);
  }

  #openCode(rest: string, depth: number, fence: Fence | null): void {
    const code: OpenCode = { kind: "code", info: fence?.info ?? "", text: "", fence, lines: 0, blanks: 0 };
    if (fence === null) addCodeLine(code, unindent(rest, TAB_COLUMNS));
    this.#add(depth, code);
    this.#leaf = code;
  }

  #openMaths(text: string, depth: number, { opener, rest }: { opener: string; rest: string }): void {
    const closed = mathsBlockEnd(rest, opener) >= 0;
    const block: MathsBlock = { kind: "maths", opener, text: closed ? text.trimEnd() : text, closed };
    this.#add(depth, block);
    this.#leaf = closed ? null : block;
  }

  #openParagraph(text: string): void {
    const paragraph: Paragraph = { kind: "paragraph", settled: [], text: "" };
    grow(paragraph, text);
    this.#add(this.#stack.length, paragraph);
    this.#leaf = paragraph;
  }

  #closeTo(depth: number): void {
    this.#closeLeaf();
    this.#stack.length = Math.max(1, Math.min(depth, this.#stack.length));
  }

  #closeLeaf(): void {
    const leaf = this.#leaf;
    if (leaf?.kind === "paragraph") leaf.text = leaf.text.trimEnd();
    if (leaf?.kind === "maths" && !leaf.closed) {
      // what nothing closes is no maths
      const paragraph: Paragraph = { kind: "paragraph", settled: [], text: "" };
      grow(paragraph, leaf.text);
      (this.#top.children as Block[])[this.#top.children.length - 1] = paragraph;
    }
    this.#leaf = null;
  }
}

function copied(frame: Frame): Frame {
  if (frame.kind === "list") {
    const children = frame.children.slice();
    return { ...frame, children, node: { ...frame.node, children } };
  }
  const children = frame.children.slice();
  if (frame.kind === "root") return { kind: "root", children };
  return { ...frame, children, node: { ...frame.node, children } } as Frame;
}

/** The rest of the line inside the frame, or null if the line is not part of it. */
function insideOf(frame: Frame, line: string): string | null {
  switch (frame.kind) {
    case "root":
    case "list":
    case "details":
      return line;
    case "note":
      if (isBlank(line)) return "";
      return indentOf(line) >= TAB_COLUMNS ? unindent(line, TAB_COLUMNS) : null;
    case "quote":
      return indentOf(line) < TAB_COLUMNS ? quoteRest(line) : null;
    case "item":
      if (isBlank(line)) return frame.children.length > 0 ? "" : null;
      return indentOf(line) >= frame.width ? unindent(line, frame.width) : null;
  }
}

function mayInterrupt(marker: ListMarker, list: (Frame & { kind: "list" }) | null): boolean {
  return list?.sign === marker.sign || (!marker.empty && (!marker.ordered || marker.start === 1));
}

function addRow(table: OpenTable, line: string): void {
  const cells = cellsOf(line);
  table.rows.push(table.head.map((_, at) => cells[at] ?? ""));
}

function addCodeLine(code: OpenCode, line: string): void {
  code.text += code.lines === 0 ? line : `\n${line}`;
  code.lines += 1;
}

function grow(paragraph: Paragraph, text: string): void {
  paragraph.text += text;
  while (paragraph.text.length >= PIECE_CHARS_MAX) {
    const piece = paragraph.text.slice(0, PIECE_CHARS_MAX);
    const space = Math.max(piece.lastIndexOf(" "), piece.lastIndexOf("\n"));
    const cut = space >= PIECE_CHARS_MIN ? space + 1 : wholeCharacters(piece);
    paragraph.settled = [...paragraph.settled, piece.slice(0, cut)];
    paragraph.text = paragraph.text.slice(cut);
  }
}

/** The length without half a surrogate pair at the end. */
function wholeCharacters(text: string): number {
  const last = text.charCodeAt(text.length - 1);
  return last >= 0xd800 && last <= 0xdbff ? text.length - 1 : text.length;
}
