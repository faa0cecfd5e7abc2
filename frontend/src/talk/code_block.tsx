/** Code with its language, its colours and a button to copy it; while it grows, only its last lines are shaded again. */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Highlighter, Token } from "../markdown/highlight.ts";
import { languageOf } from "../markdown/languages.ts";
import type { Code } from "../markdown/nodes.ts";
import { fetchShading, shading } from "../markdown/shading.ts";
import { CopyButton } from "./copy_button.tsx";
import { memo } from "./memo.tsx";

const GROUP_LINES = 20;
// beyond this, colours would cost more than they tell
const SHADED_CHARS_MAX = 200_000;

type Line = readonly Token[];

/** The lines of growing code: those that are complete are shaded once, in groups that no longer change. */
class Shaded {
  readonly groups: (readonly Line[])[] = [];
  #highlighter: Highlighter | null;
  #open: Line[] = [];
  #text = "";
  #taken = 0;

  constructor(highlighter: Highlighter | null) {
    this.#highlighter = highlighter;
  }

  follows(text: string): boolean {
    return text.startsWith(this.#text);
  }

  /** The groups that are done, and the lines after them. */
  grow(text: string): readonly Line[] {
    this.#text = text;
    if (text.length > SHADED_CHARS_MAX) this.#highlighter = null;
    for (let end = text.indexOf("\n", this.#taken); end >= 0; end = text.indexOf("\n", this.#taken)) {
      this.#open.push(this.#line(text.slice(this.#taken, end + 1)));
      this.#taken = end + 1;
      if (this.#open.length === GROUP_LINES) {
        this.groups.push(this.#open);
        this.#open = [];
      }
    }
    const last = text.slice(this.#taken);
    const shaded = this.#highlighter?.fork().line(last) ?? [{ shade: "", text: last } as const];
    return [...this.#open, shaded];
  }

  #line(text: string): Line {
    return this.#highlighter?.line(text) ?? [{ shade: "", text }];
  }
}

const Lines = memo(
  ({ lines }: { readonly lines: readonly Line[] }): JSX.Element => (
    <span class="lines">
      {lines.map((line, at) => (
        <LineView key={at} line={line} />
      ))}
    </span>
  ),
);

const LineView = memo(
  ({ line }: { readonly line: Line }): JSX.Element => (
    <>
      {line.map((token) =>
        token.shade === "" ? token.text : <span class={`sh-${token.shade}`}>{token.text}</span>,
      )}
    </>
  ),
);

export function CodeBlock({ code }: { readonly code: Code }): JSX.Element {
  const { title, name, language } = languageOf(code.info);
  return (
    <figure class="code">
      <figcaption class="code-head">
        <span class="code-language">{title || "Text"}</span>
        <CopyButton text={() => code.text} what="code" words="Copy" />
      </figcaption>
      <ShadedText key={name} text={code.text} language={language} label={title ? `Code, ${title}` : "Code"} />
    </figure>
  );
}

interface ShadedTextProps {
  readonly text: string;
  /** The name of a language; "" and one that nobody knows have no colours. */
  readonly language: string;
  readonly label: string;
}

/** Text in a fixed-width box that scrolls by itself. */
export function ShadedText({ text, language, label }: ShadedTextProps): JSX.Element {
  const kept = useRef<Shaded | null>(null);
  const colours = shading.value;
  const shadedBy = useRef(colours);
  useEffect(fetchShading, []);
  if (kept.current === null || shadedBy.current !== colours || !kept.current.follows(text)) {
    kept.current = new Shaded(colours?.highlighterOf(language) ?? null);
    shadedBy.current = colours;
  }
  const open = kept.current.grow(text);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <pre class="code-text" tabIndex={0} role="group" aria-label={label}>
      <code>
        {/* an open group keeps its place when it is done, so that none is ever moved */}
        {[...kept.current.groups, open].map((lines, at) => (
          <Lines key={at} lines={lines} />
        ))}
      </code>
    </pre>
  );
}
