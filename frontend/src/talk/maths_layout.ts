/** Maths laid out by KaTeX: a chunk of its own, which shares nothing with the page. */
import katex from "katex";

// a formula of a model may be a trap: macros that grow, boxes as large as a house
const EXPANSIONS_MAX = 500;
const SIZE_EM_MAX = 10;

/** The formula as an element. It throws if there is something in it that KaTeX doesn't know.
 *
 * It is built by calls, never from a string: the page's policy forbids markup and inline styles.
 */
export function laidOut(tex: string, displayMode: boolean): HTMLElement {
  const host = document.createElement("span");
  katex.render(tex, host, {
    displayMode,
    throwOnError: true,
    strict: "ignore",
    trust: false,
    maxExpand: EXPANSIONS_MAX,
    maxSize: SIZE_EM_MAX,
  });
  return host;
}
