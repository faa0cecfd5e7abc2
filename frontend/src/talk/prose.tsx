/** Markdown on the page: a block that is settled is rendered once, whatever comes after it. */
import { effect, type Signal, signal, untracked } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Icon } from "../icons.tsx";
import { GrowingText } from "../markdown/growing.ts";
import { parseInline, plainText } from "../markdown/inline.ts";
import type { Align, Block, Inline, Item, List, Paragraph, Table } from "../markdown/nodes.ts";
import { hostBehind } from "../markdown/safe.ts";
import { MarkdownStream, parseBlocks, type Snapshot } from "../markdown/stream.ts";
import { session, type TextEntry } from "../state.ts";
import { CodeBlock } from "./code_block.tsx";
import { memo } from "./memo.tsx";

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

/** An answer that may still grow; a text that does not go on from what was shown begins anew. */
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
        return <CodeBlock code={block} />;
      case "table":
        return <TableView table={block} />;
      case "rule":
        return <hr />;
      case "quote":
        return (
          <blockquote>
            <Blocks blocks={block.children} settled={settledOf(block, tail)} tail={tail} />
          </blockquote>
        );
      case "list":
        return <ListView list={block} tail={tail} />;
    }
  },
);

/** How many blocks inside another one no longer change: all but the last, if the text grows there. */
function settledOf({ children }: { readonly children: readonly Block[] }, tail: Tail | null): number {
  return tail === null ? children.length : children.length - 1;
}

interface WordsProps {
  readonly paragraph: Paragraph;
  readonly tail: Tail | null;
}

/** A very long paragraph is several boxes, so that only the last one is laid out anew while it grows. */
function Words({ paragraph, tail }: WordsProps): JSX.Element {
  const { settled } = paragraph;
  const last = (
    <p key={settled.length} dir="auto">
      <LastWords paragraph={paragraph} tail={tail} />
    </p>
  );
  if (settled.length === 0) return last;
  const pieces = settled.map((piece, at) => (
    <p key={at} dir="auto">
      <Inlines text={piece} />
    </p>
  ));
  return <div class="pieces">{[...pieces, last]}</div>;
}

/** The words at which a text grows or grew: what the tail of one that grows has opened is shown as if it were closed. */
function LastWords({ paragraph, tail }: WordsProps): JSX.Element {
  const kept = useRef<{ grown: GrowingText; settled: ComponentChildren[] } | null>(null);
  const text = tail?.at === paragraph ? tail.words.value : paragraph.text;
  if (!kept.current?.grown.leadsTo(text)) kept.current = { grown: new GrowingText(), settled: [] };
  const { grown, settled } = kept.current;
  const rest = tail === null ? grown.end(text) : grown.grow(text);
  // what is the same object as before is not looked at again
  settled.push(...inline(grown.settled.slice(settled.length), settled.length));
  return <>{[...settled, ...inline(rest, settled.length)]}</>;
}

/** The page's own title is the first level, so a text begins at the second, which models use as their first. */
function Heading({ level, text }: { readonly level: number; readonly text: string }): JSX.Element {
  const words = <Inlines text={text} />;
  const look = { class: `level-${level}`, dir: "auto" } as const;
  if (level <= 2) return <h2 {...look}>{words}</h2>;
  if (level === 3) return <h3 {...look}>{words}</h3>;
  return level === 4 ? <h4 {...look}>{words}</h4> : <h5 {...look}>{words}</h5>;
}

function ListView({ list, tail }: { readonly list: List; readonly tail: Tail | null }): JSX.Element {
  const last = list.children.length - 1;
  const items = list.children.map((item, at) => (
    <ItemView key={at} item={item} tail={at === last ? tail : null} />
  ));
  const shape = list.loose ? "loose" : "tight";
  return list.ordered ? (
    <ol class={shape} start={list.start}>
      {items}
    </ol>
  ) : (
    <ul class={shape}>{items}</ul>
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
      <table>
        <thead>
          <tr>
            {table.head.map((cell, at) => (
              <th key={at} scope="col" class={aligned(table.align[at])}>
                <Inlines text={cell} />
              </th>
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
        <td key={at} class={aligned(align[at])} dir="auto">
          <Inlines text={cell} />
        </td>
      ))}
    </tr>
  ),
);

function aligned(align: Align | undefined): string | undefined {
  return align ? `to-${align}` : undefined;
}

/** Running text that is complete. */
const Inlines = memo(({ text }: { readonly text: string }): JSX.Element => <>{inline(parseInline(text))}</>);

function inline(parts: readonly Inline[], from = 0): ComponentChildren[] {
  return parts.map((part, nth) => {
    const at = from + nth;
    switch (part.kind) {
      case "text":
        return part.text;
      case "break":
        return <br key={at} />;
      case "code":
        return <code key={at}>{part.text}</code>;
      case "em":
        return <em key={at}>{inline(part.children)}</em>;
      case "strong":
        return <strong key={at}>{inline(part.children)}</strong>;
      case "strike":
        return <del key={at}>{inline(part.children)}</del>;
      case "link":
        return <Link key={at} href={part.href} parts={part.children} />;
      case "image":
        return <Picture key={at} src={part.src} alt={part.alt} />;
      default:
        return part satisfies never;
    }
  });
}

function Link({ href, parts }: { readonly href: string; readonly parts: readonly Inline[] }): JSX.Element {
  const elsewhere = hostBehind(href, plainText(parts));
  return (
    <>
      <a href={href} target="_blank" rel="noopener noreferrer nofollow" title={href}>
        {inline(parts.map(named))}
      </a>
      {elsewhere === "" ? null : <span class="link-host"> ({elsewhere})</span>}
    </>
  );
}

/** Links do not stand inside links: an image from elsewhere is its name there. */
function named(part: Inline): Inline {
  return part.kind === "image" && !part.src.startsWith("data:")
    ? { kind: "text", text: part.alt || "Image" }
    : part;
}

/** An image that the text carries is shown; one from elsewhere is a link, since loading it would tell who reads. */
function Picture({ src, alt }: { readonly src: string; readonly alt: string }): JSX.Element {
  if (src.startsWith("data:")) return <img class="picture" src={src} alt={alt} />;
  const host = /^https?:\/\/([^/?#]+)/i.exec(src)?.[1] ?? "";
  return (
    <a class="picture-link" href={src} target="_blank" rel="noopener noreferrer nofollow" title={src}>
      <Icon name="image" />
      <span>{alt || "Image"}</span>
      <span class="link-host">{host}</span>
    </a>
  );
}
