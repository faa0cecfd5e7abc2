/** Markdown on the page: a block that is settled is rendered once, whatever comes after it. */
import type { ComponentChildren, JSX } from "preact";
import { useRef } from "preact/hooks";
import { Icon } from "../icons.tsx";
import { parseGrowing, parseInline, plainText } from "../markdown/inline.ts";
import type { Align, Block, Inline, Item, List, Paragraph, Table } from "../markdown/nodes.ts";
import { hostBehind } from "../markdown/safe.ts";
import { MarkdownStream } from "../markdown/stream.ts";
import { CodeBlock } from "./code_block.tsx";
import { memo } from "./memo.tsx";

interface ProseProps {
  readonly text: string;
  readonly done: boolean;
}

/** A text that may still grow; one that does not go on from what was shown begins anew. */
export function Prose({ text, done }: ProseProps): JSX.Element {
  const kept = useRef<{ stream: MarkdownStream; text: string; ended: boolean } | null>(null);
  const before = kept.current;
  const goesOn = before !== null && text.startsWith(before.text) && !(before.ended && text !== before.text);
  const now = goesOn ? before : { stream: new MarkdownStream(), text: "", ended: false };
  now.stream.push(text.slice(now.text.length));
  now.text = text;
  if (done && !now.ended) {
    now.stream.end();
    now.ended = true;
  }
  kept.current = now;
  const { blocks, settled } = now.stream.snapshot();
  return (
    <div class="prose">
      <Blocks blocks={blocks} settled={settled} />
    </div>
  );
}

function Blocks({
  blocks,
  settled,
}: {
  readonly blocks: readonly Block[];
  readonly settled: number;
}): JSX.Element {
  return (
    <>
      {blocks.map((block, at) => (
        <BlockView key={at} block={block} growing={at >= settled} />
      ))}
    </>
  );
}

const BlockView = memo(
  ({ block, growing }: { readonly block: Block; readonly growing: boolean }): JSX.Element => {
    switch (block.kind) {
      case "paragraph":
        return <Words paragraph={block} growing={growing} />;
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
            <Blocks
              blocks={block.children}
              settled={growing ? block.children.length - 1 : block.children.length}
            />
          </blockquote>
        );
      case "list":
        return <ListView list={block} growing={growing} />;
    }
  },
);

/** A very long paragraph is several boxes, so that only the last one is laid out anew while it grows. */
function Words({
  paragraph,
  growing,
}: {
  readonly paragraph: Paragraph;
  readonly growing: boolean;
}): JSX.Element {
  const { settled, text } = paragraph;
  const pieces = [...settled, text].map((piece, at) => (
    <p key={at} dir="auto">
      <Inlines text={piece} growing={growing && at === settled.length} />
    </p>
  ));
  return settled.length === 0 ? (pieces[0] as JSX.Element) : <div class="pieces">{pieces}</div>;
}

/** The page's own title is the first level, so a text begins at the second, which models use as their first. */
function Heading({ level, text }: { readonly level: number; readonly text: string }): JSX.Element {
  const words = <Inlines text={text} growing={false} />;
  const look = { class: `level-${level}`, dir: "auto" } as const;
  if (level <= 2) return <h2 {...look}>{words}</h2>;
  if (level === 3) return <h3 {...look}>{words}</h3>;
  return level === 4 ? <h4 {...look}>{words}</h4> : <h5 {...look}>{words}</h5>;
}

function ListView({ list, growing }: { readonly list: List; readonly growing: boolean }): JSX.Element {
  const last = list.children.length - 1;
  const items = list.children.map((item, at) => (
    <ItemView key={at} item={item} growing={growing && at === last} />
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

const ItemView = memo(
  ({ item, growing }: { readonly item: Item; readonly growing: boolean }): JSX.Element => {
    const settled = growing ? item.children.length - 1 : item.children.length;
    if (item.task === "")
      return (
        <li>
          <Blocks blocks={item.children} settled={settled} />
        </li>
      );
    return (
      <li class={`task ${item.task}`}>
        <span class="task-box" role="img" aria-label={item.task === "done" ? "Done:" : "To do:"}>
          {item.task === "done" ? <Icon name="check" /> : null}
        </span>
        <div>
          <Blocks blocks={item.children} settled={settled} />
        </div>
      </li>
    );
  },
);

function TableView({ table }: { readonly table: Table }): JSX.Element {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div class="table" tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead>
          <tr>
            {table.head.map((cell, at) => (
              <th key={at} scope="col" class={aligned(table.align[at])}>
                <Inlines text={cell} growing={false} />
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
          <Inlines text={cell} growing={false} />
        </td>
      ))}
    </tr>
  ),
);

function aligned(align: Align | undefined): string | undefined {
  return align ? `to-${align}` : undefined;
}

/** Running text; the tail of one that grows is shown as if what it opened were closed. */
const Inlines = memo(
  ({ text, growing }: { readonly text: string; readonly growing: boolean }): JSX.Element => {
    return <>{inline(growing ? parseGrowing(text) : parseInline(text))}</>;
  },
);

function inline(parts: readonly Inline[]): ComponentChildren[] {
  return parts.map((part, at) => {
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
