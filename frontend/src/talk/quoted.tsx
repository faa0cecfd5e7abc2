/** Shows text between backticks as code. */
import type { ComponentChildren } from "preact";

export function quoted(words: string): ComponentChildren[] {
  return words
    .split("`")
    .map((part, at, all) => (at % 2 === 1 && at < all.length - 1 ? <code key={at}>{part}</code> : part));
}
