/** The small tree that markdown text is parsed to. */

import type { Maths } from "./maths.ts";

export type Align = "" | "left" | "center" | "right";

/** A leaf of running text; `settled` are pieces that no longer change, `text` is what follows them. */
export type Paragraph = { readonly kind: "paragraph"; settled: readonly string[]; text: string };
export type Heading = { readonly kind: "heading"; level: number; text: string };
export type Code = { readonly kind: "code"; info: string; text: string };
export type Table = {
  readonly kind: "table";
  align: readonly Align[];
  head: readonly string[];
  rows: readonly (readonly string[])[];
};
export type Rule = { readonly kind: "rule" };
export type Quote = { readonly kind: "quote"; children: readonly Block[] };
export type Item = { readonly kind: "item"; task: "" | "todo" | "done"; children: readonly Block[] };
/** `start` is 0 for bullets; a loose list has empty lines between its items. */
export type List = {
  readonly kind: "list";
  start: number;
  ordered: boolean;
  loose: boolean;
  children: readonly Item[];
};

/** Maths in lines of its own; `text` is its source with all signs, and nothing is laid out before it is closed. */
export type MathsBlock = { readonly kind: "maths"; opener: string; text: string; closed: boolean };
/** A footnote: what `[^label]` refers to. */
export type Note = { readonly kind: "note"; label: string; children: readonly Block[] };
export type Details = { readonly kind: "details"; summary: string; children: readonly Block[] };

export type Block = Paragraph | Heading | Code | Table | Rule | Quote | List | MathsBlock | Note | Details;

export type Inline =
  | { kind: "text"; text: string }
  | { kind: "code"; text: string }
  | { kind: "strong" | "em" | "strike"; children: Inline[] }
  | { kind: "link"; href: string; children: Inline[] }
  | { kind: "image"; src: string; alt: string }
  | Maths
  | { kind: "note"; label: string }
  | { kind: "break" };
