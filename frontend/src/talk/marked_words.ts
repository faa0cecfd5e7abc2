/** Text that begins with a mark instead of a slash: shell commands and memories. */
import { has } from "../state.ts";

type Command = readonly [command: string, words: string];

/** Commands that begin with a mark instead of a slash. */
const MARKED: readonly Command[] = [
  ["!COMMAND", "run it in the sandbox; the agent sees the output"],
  ["#TEXT", "propose a memory about this workspace; ##TEXT: about you"],
];

/** Those of this server. */
export function marked(): readonly Command[] {
  return MARKED.slice(0, has("memory") ? 2 : 1);
}

/** The memory that the text proposes; a text of several lines is Markdown. */
export function memoryIn(
  text: string,
): { readonly text: string; readonly scope: "user" | "workspace" } | null {
  const found = /^\s*(##?)\s*([^#\s][^\n]*)$/.exec(text);
  if (found === null || !has("memory")) return null;
  return { text: found[2] ?? "", scope: found[1] === "##" ? "user" : "workspace" };
}
