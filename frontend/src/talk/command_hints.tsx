/** What can be written instead of a message, shown to whoever begins with a slash. */
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { useOwnCommands } from "../features/commands/own_commands.ts";
import { dialog } from "../frame/ui.ts";
import { isComposing } from "../keys.ts";
import { saveDraft } from "../state.ts";
import { commands } from "./command_words.ts";
import { focusComposer } from "./focus.ts";
import { marked } from "./marked_words.ts";

interface Props {
  readonly draft: string;
  /** Whether there is a chat at rest, which alone can be summarized. */
  readonly canCompact: boolean;
}

export function CommandHints({ draft, canCompact }: Props): JSX.Element | null {
  const list = useRef<HTMLUListElement>(null);
  const isCommand = /^\/[\w-]*$/.test(draft);
  const own = useOwnCommands(isCommand);
  const found = isCommand
    ? [...commands(), ...own].filter(
        ([name]) => name.startsWith(draft) && (canCompact || name !== "/compact"),
      )
    : [];
  const first = found[0]?.[0] ?? "";
  useFieldKeys(list, first);
  const mark = marked().find(([name]) => draft.startsWith(name[0] ?? " "));
  if (mark !== undefined && (draft[0] === "!" || !draft.includes("\n")))
    return <p class="command-hints fine muted">{HINTS[draft[0] ?? ""]}</p>;
  if (first === "") return null;
  return (
    <ul ref={list} class="command-hints" aria-label="Commands" onKeyDown={moveInList}>
      {found.map(([name, words]) => (
        <li key={name}>
          <button type="button" class="button small quiet" onClick={() => take(name)}>
            <code>{name}</code> <span class="muted">{words}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

const HINTS: Readonly<Record<string, string>> = {
  "!": "Runs in the sandbox when you send it. The agent sees the output.",
  "#": "Proposes a memory about this workspace. ## proposes one about you.",
};

function take(name: string): void {
  if (name === "/help") {
    saveDraft("");
    dialog.value = "help";
    return;
  }
  complete(name);
}

function complete(name: string): void {
  saveDraft(`${name} `);
  focusComposer();
}

/** In the field, Tab completes the first command and the arrow goes down to the list. */
function useFieldKeys(list: { readonly current: HTMLElement | null }, first: string): void {
  // before the next key is heard
  useLayoutEffect(() => {
    const field = document.getElementById("composer");
    if (field === null || first === "") return;
    const onKey = (event: KeyboardEvent): void => {
      if (isComposing(event) || event.shiftKey || event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.key === "Tab") complete(first);
      else if (event.key === "ArrowDown") list.current?.querySelector("button")?.focus();
      else return;
      event.preventDefault();
    };
    field.addEventListener("keydown", onKey);
    return () => field.removeEventListener("keydown", onKey);
  }, [first]);
}

/** Arrows go from command to command, and up from the first back to the field. */
function moveInList(event: KeyboardEvent): void {
  const buttons = [...(event.currentTarget as HTMLElement).querySelectorAll("button")];
  const at = buttons.indexOf(event.target as HTMLButtonElement);
  const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Escape: -1 - at }[event.key];
  if (by === undefined) return;
  event.preventDefault();
  if (at + by < 0) focusComposer();
  else buttons[at + by]?.focus();
}
