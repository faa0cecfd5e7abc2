/** Running text as the page's own nodes: most are made once, and the last one grows by the words that come.
 *
 * Preact is not asked, since a paragraph under way gets words many times a second, and to compare what was with
 * what is would be most of the page's work.
 */
import { render } from "preact";
import { Icon } from "../icons.tsx";
import { GrowingText } from "../markdown/growing.ts";
import { plainText } from "../markdown/inline.ts";
import type { Inline } from "../markdown/nodes.ts";
import { hostBehind } from "../markdown/safe.ts";
import { noteReference } from "./footnotes.ts";
import { mathsElement } from "./maths.ts";

interface Open {
  readonly part: Inline;
  readonly nodes: Node[];
}

/** The words of one element, which holds nothing else. */
export class RunningText {
  readonly #host: Element;
  #text = new GrowingText();
  #settled = 0;
  /** The parts that may still change, with their nodes. */
  #open: Open[] = [];

  constructor(host: Element) {
    this.#host = host;
  }

  /** The text as it is by now: what its end has opened is shown as if it were closed there. */
  grow(text: string): void {
    this.#begin(text);
    const fresh = this.#text.lengthen(text);
    const last = this.#open.at(-1);
    if (fresh === null || last === undefined) this.#put(this.#text.grow(text));
    else if (fresh !== "") this.#add(last, fresh);
  }

  /** The whole text. */
  end(text: string): void {
    this.#begin(text);
    this.#put(this.#text.end(text));
  }

  /** A text that doesn't continue the shown one replaces it. */
  #begin(text: string): void {
    if (this.#text.leadsTo(text)) return;
    this.#host.replaceChildren();
    this.#text = new GrowingText();
    this.#settled = 0;
    this.#open = [];
  }

  /** Shows what is settled by now and the rest; nodes that say the same, or the beginning of it, stay. */
  #put(rest: readonly Inline[]): void {
    const settled = this.#text.settled.slice(this.#settled);
    const parts = [...settled, ...rest];
    const changed = parts.findIndex((part, at) => !isShown(part, this.#open[at]));
    const kept = changed < 0 ? parts.length : changed;
    const grown = this.#open[kept];
    const fresh = grown === undefined ? "" : addedTo(grown, parts[kept]);
    for (const gone of this.#open.splice(fresh === "" ? kept : kept + 1))
      for (const node of gone.nodes) this.#host.removeChild(node);
    if (grown !== undefined && fresh !== "") this.#add(grown, fresh);
    for (const part of parts.slice(this.#open.length)) {
      const nodes = nodesOf([part]);
      this.#host.append(...nodes);
      this.#open.push({ part, nodes });
    }
    this.#open.splice(0, settled.length);
    this.#settled += settled.length;
  }

  /** Appends plain words as a new text node: the browser would have to shape a changed one again as a whole. */
  #add(open: Open, fresh: string): void {
    const node = new Text(fresh);
    this.#host.append(node);
    open.nodes.push(node);
  }
}

/** Whether the nodes say what the part does; plain words may have grown since they were made. */
function isShown(part: Inline, open: Open | undefined): boolean {
  if (open === undefined) return false;
  if (part.kind === "text" && open.part.kind === "text") return shownIn(open) === part.text;
  return JSON.stringify(part) === JSON.stringify(open.part);
}

/** The words that are missing behind plain words; none if it is not so. */
function addedTo(open: Open, part: Inline | undefined): string {
  if (open.part.kind !== "text" || part?.kind !== "text") return "";
  const shown = shownIn(open);
  return part.text.startsWith(shown) ? part.text.slice(shown.length) : "";
}

function shownIn({ nodes }: Open): string {
  return nodes.map((node) => node.textContent).join("");
}

/** The parts as nodes. */
export function nodesOf(parts: readonly Inline[]): Node[] {
  return parts.flatMap((part): Node | Node[] => {
    switch (part.kind) {
      case "text":
        return new Text(part.text);
      case "break":
        return element("br");
      case "code":
        return element("code", [new Text(part.text)]);
      case "em":
      case "strong":
        return element(part.kind, nodesOf(part.children));
      case "strike":
        return element("del", nodesOf(part.children));
      case "link":
        return linkNodes(part.href, part.children);
      case "image":
        return picture(part.src, part.alt);
      case "maths":
        return mathsElement(part);
      case "note":
        return noteReference(part.label);
      default:
        return part satisfies never;
    }
  });
}

function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  children: readonly Node[] = [],
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  made.append(...children);
  return made;
}

function linkTo(href: string, children: readonly Node[]): HTMLAnchorElement {
  const link = element("a", children);
  link.href = href;
  link.target = "_blank";
  link.rel = "noopener noreferrer nofollow";
  link.title = href;
  return link;
}

function linkNodes(href: string, parts: readonly Inline[]): Node[] {
  const link = linkTo(href, nodesOf(parts.map(named)));
  const elsewhere = hostBehind(href, plainText(parts));
  return elsewhere === "" ? [link] : [link, aside(` (${elsewhere})`)];
}

function aside(words: string): HTMLElement {
  const made = element("span", [new Text(words)]);
  made.className = "link-host";
  return made;
}

/** Links do not stand inside links: an image from elsewhere is its name there. */
function named(part: Inline): Inline {
  return part.kind === "image" && !part.src.startsWith("data:")
    ? { kind: "text", text: part.alt || "Image" }
    : part;
}

/** An image that the text carries is shown; one from elsewhere is a link, since loading it would tell who reads. */
function picture(src: string, alt: string): HTMLElement {
  if (src.startsWith("data:")) {
    const image = element("img");
    image.className = "inline-picture";
    image.src = src;
    image.alt = alt;
    return image;
  }
  const host = /^https?:\/\/([^/?#]+)/i.exec(src)?.[1] ?? "";
  const icon = element("span");
  icon.className = "picture-icon";
  render(<Icon name="image" />, icon);
  const link = linkTo(src, [icon, element("span", [new Text(alt || "Image")]), aside(host)]);
  link.className = "picture-link";
  return link;
}
