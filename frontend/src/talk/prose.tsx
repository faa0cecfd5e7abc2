/** Markdown on the page: a block that is settled is rendered once, whatever comes after it. */
import { effect, type Signal, signal, untracked } from "@preact/signals";
import { h, type JSX } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Icon } from "../icons.tsx";
import { directionOf } from "../markdown/direction.ts";
import { parseInline } from "../markdown/inline.ts";
import type {
  Align,
  Block,
  Code,
  Item,
  List,
  MathsBlock,
  Note,
  Paragraph,
  Table,
} from "../markdown/nodes.ts";
import { MarkdownStream, parseBlocks, type Snapshot } from "../markdown/stream.ts";
import { session, type TextEntry } from "../state.ts";
import { CodeBlock } from "./code_block.tsx";
import { DiagramBlock } from "./diagram_block.tsx";
import { linkReferences, showReference } from "./footnotes.ts";
import { mathsElement } from "./maths.ts";
import { memo } from "./memo.tsx";
import { nodesOf, RunningText } from "./running.tsx";

/** The place at which a text grows: the paragraph there, and its words as they are by now. */
interface Tail {
  at: Paragraph | null;
  readonly words: Signal<string>;
}

/** A growing text on the screen. */
class Shown {
  readonly tail: Tail = { at: null, words: signal("") };
  readonly #stream = new MarkdownStream();
  #text = "";
  #ended = false;
  #snapshot: Snapshot | null = null;

  /** Whether the text goes on from what is shown; if not, another one must show it. */
  leadsTo(text: string): boolean {
    return text.startsWith(this.#text) && !(this.#ended && text !== this.#text);
  }

  /** Shows what is new by words at the end of the open paragraph alone; false if that cannot show it. */
  grow({ text, done }: TextEntry): boolean {
    if (this.#snapshot === null || !this.leadsTo(text) || (done && !this.#ended)) return false;
    const fresh = text === this.#text ? "" : this.#stream.lengthen(text.slice(this.#text.length));
    if (fresh === null) return false;
    this.#text = text;
    this.tail.words.value += fresh;
    return true;
  }

  /** The blocks of the text; words that the open paragraph got by then are its tail's. */
  blocks(text: string, done: boolean): Snapshot {
    if (this.#snapshot !== null && text === this.#text && done === this.#ended) return this.#snapshot;
    this.#stream.push(text.slice(this.#text.length));
    this.#text = text;
    if (done) this.#stream.end();
    this.#ended = done;
    this.#snapshot = this.#stream.snapshot();
    this.tail.at = this.#snapshot.open;
    this.tail.words.value = this.#snapshot.open?.text ?? "";
    return this.#snapshot;
  }
}

/** A text that no longer changes. */
export function Prose({ text }: { readonly text: string }): JSX.Element {
  const blocks = useMemo(() => parseBlocks(text), [text]);
  return (
    <div class="prose">
      <Blocks blocks={blocks} settled={blocks.length} tail={null} />
    </div>
  );
}

/** An answer that may still grow; a text that doesn't continue what was shown starts over. */
export function GrowingProse({ entry }: { readonly entry: TextEntry }): JSX.Element {
  const shown = useRef<Shown | null>(null);
  const [, again] = useState({});
  useLayoutEffect(
    () =>
      effect(() => {
        entry.version.value;
        untracked(() => {
          if (!shown.current?.grow(entry)) again({});
        });
      }),
    [entry],
  );
  if (!shown.current?.leadsTo(entry.text)) shown.current = new Shown();
  // what a stop or a crash cut off does not go on either
  const done = entry.done || session.value?.currentRun.value?.run_id !== entry.run_id;
  const { blocks, settled } = shown.current.blocks(entry.text, done);
  return (
    <div class="prose">
      <Blocks blocks={blocks} settled={settled} tail={shown.current.tail} />
    </div>
  );
}

interface BlocksProps {
  readonly blocks: readonly Block[];
  readonly settled: number;
  readonly tail: Tail | null;
}

function Blocks({ blocks, settled, tail }: BlocksProps): JSX.Element {
  return (
    <>
      {blocks.map((block, at) => (
        <BlockView key={at} block={block} tail={at < settled ? null : tail} />
      ))}
    </>
  );
}

const BlockView = memo(
  ({ block, tail }: { readonly block: Block; readonly tail: Tail | null }): JSX.Element => {
    switch (block.kind) {
      case "paragraph":
        return <Words paragraph={block} tail={tail} />;
      case "heading":
        return <Heading level={block.level} text={block.text} />;
      case "code":
        return tail === null && isDiagram(block) ? <DiagramBlock code={block} /> : <CodeBlock code={block} />;
      case "table":
        return <TableView table={block} />;
      case "rule":
        return <hr />;
      case "quote":
        return (
          <blockquote dir={directionOf(block)}>
            <Blocks blocks={block.children} settled={settledOf(block, tail)} tail={tail} />
          </blockquote>
        );
      case "list":
        return <ListView list={block} tail={tail} />;
      case "maths":
        return <MathsView block={block} />;
      case "note":
        return <NoteView note={block} tail={tail} />;
      case "details":
        return (
          <details dir={directionOf(block)}>
            <Running tag="summary" text={block.summary || "Details"} />
            <Blocks blocks={block.children} settled={settledOf(block, tail)} tail={tail} />
          </details>
        );
    }
  },
);

/** Whether it is drawn once nothing more can come. */
function isDiagram({ info }: Code): boolean {
  return /^mermaid\b/i.test(info.trim());
}

/** Maths in lines of its own; until it is closed, and if it can't be laid out, it is its source. */
function MathsView({ block: { opener, text, closed } }: { readonly block: MathsBlock }): JSX.Element {
  const inner = text.slice(opener.length, -opener.length);
  const fill = (host: Element | null): void =>
    host?.replaceChildren(mathsElement({ kind: "maths", text: inner, source: text, display: true }));
  return closed ? (
    <p key="closed" ref={fill} />
  ) : (
    <p key="open">
      <span class="maths display">{text}</span>
    </p>
  );
}

function NoteView({ note, tail }: { readonly note: Note; readonly tail: Tail | null }): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const { label } = note;
  useLayoutEffect(() => {
    if (host.current !== null) linkReferences(host.current, label);
  }, [label]);
  return (
    <div ref={host} class="footnote" role="note" data-note={label}>
      <button
        type="button"
        class="note-link"
        aria-label={`Back to the reference to footnote ${label}`}
        onClick={() => host.current && showReference(host.current, label)}
      >
        {label}
      </button>
      <div>
        <Blocks blocks={note.children} settled={settledOf(note, tail)} tail={tail} />
      </div>
    </div>
  );
}

/** How many blocks inside another one no longer change: all but the last, if the text grows there. */
function settledOf({ children }: { readonly children: readonly Block[] }, tail: Tail | null): number {
  return tail === null ? children.length : children.length - 1;
}

interface WordsProps {
  readonly paragraph: Paragraph;
  readonly tail: Tail | null;
}

/** A very long paragraph is several boxes, so that only the last one is laid out again as it grows. */
function Words({ paragraph, tail }: WordsProps): JSX.Element {
  const { settled } = paragraph;
  const last = <LastWords key={settled.length} paragraph={paragraph} tail={tail} />;
  if (settled.length === 0) return last;
  const pieces = settled.map((piece, at) => <Running key={at} tag="p" text={piece} />);
  return <div class="pieces">{[...pieces, last]}</div>;
}

/** The words at which a text grows or grew; what comes goes past Preact into the paragraph itself. */
function LastWords({ paragraph, tail }: WordsProps): JSX.Element {
  const host = useRef<HTMLParagraphElement>(null);
  const running = useRef<RunningText | null>(null);
  useLayoutEffect(() => {
    if (host.current === null) return;
    running.current ??= new RunningText(host.current);
    const words = running.current;
    if (tail === null) return words.end(paragraph.text);
    words.grow(paragraph.text);
    return effect(() => {
      const text = tail.words.value;
      if (tail.at === paragraph) words.grow(text);
    });
  }, [paragraph, tail]);
  return <p ref={host} dir="auto" />;
}

/** The page's own title is the first level, so a text begins at the second, which models use as their first. */
function Heading({ level, text }: { readonly level: number; readonly text: string }): JSX.Element {
  const tag = level <= 2 ? "h2" : level === 3 ? "h3" : level === 4 ? "h4" : "h5";
  return <Running tag={tag} class={`level-${level}`} text={text} />;
}

function ListView({ list, tail }: { readonly list: List; readonly tail: Tail | null }): JSX.Element {
  const last = list.children.length - 1;
  const items = list.children.map((item, at) => (
    <ItemView key={at} item={item} tail={at === last ? tail : null} />
  ));
  const shape = list.loose ? "loose" : "tight";
  return list.ordered ? (
    <ol class={shape} start={list.start} dir={directionOf(list)}>
      {items}
    </ol>
  ) : (
    <ul class={shape} dir={directionOf(list)}>
      {items}
    </ul>
  );
}

const ItemView = memo(({ item, tail }: { readonly item: Item; readonly tail: Tail | null }): JSX.Element => {
  const settled = settledOf(item, tail);
  if (item.task === "")
    return (
      <li>
        <Blocks blocks={item.children} settled={settled} tail={tail} />
      </li>
    );
  return (
    <li class={`task ${item.task}`}>
      <span class="task-box" role="img" aria-label={item.task === "done" ? "Done:" : "To do:"}>
        {item.task === "done" ? <Icon name="check" /> : null}
      </span>
      <div>
        <Blocks blocks={item.children} settled={settled} tail={tail} />
      </div>
    </li>
  );
});

function TableView({ table }: { readonly table: Table }): JSX.Element {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div class="table" tabIndex={0} role="group" aria-label="Table">
      <table dir={directionOf(table)}>
        <thead>
          <tr>
            {table.head.map((cell, at) => (
              <Running key={at} tag="th" class={aligned(table.align[at])} text={cell} />
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((cells, at) => (
            <Row key={at} cells={cells} align={table.align} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

const Row = memo(
  ({
    cells,
    align,
  }: {
    readonly cells: readonly string[];
    readonly align: readonly Align[];
  }): JSX.Element => (
    <tr>
      {cells.map((cell, at) => (
        <Running key={at} tag="td" class={aligned(align[at])} text={cell} />
      ))}
    </tr>
  ),
);

function aligned(align: Align | undefined): string | undefined {
  return align ? `to-${align}` : undefined;
}

interface RunningProps {
  readonly tag: "p" | "h2" | "h3" | "h4" | "h5" | "th" | "td" | "summary";
  readonly text: string;
  readonly class?: string | undefined;
}

/** Running text that is complete. */
const Running = memo(({ tag, text, class: name }: RunningProps): JSX.Element => {
  const fill = (host: Element | null): void => host?.replaceChildren(...nodesOf(parseInline(text)));
  return h(tag, { ref: fill, class: name, dir: "auto", scope: tag === "th" ? "col" : undefined });
});
