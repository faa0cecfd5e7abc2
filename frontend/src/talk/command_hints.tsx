/** What can be written instead of a message, shown to whoever begins with a slash. */
import type { JSX } from "preact";
import { saveDraft } from "../state.ts";
import { focusComposer } from "./focus.ts";

const COMMANDS: readonly (readonly [command: string, words: string])[] = [
  ["/plan", "only reads until you accept its plan"],
  ["/goal", "works until the goal is reached"],
  ["/compact", "summarizes the chat so far"],
];

interface Props {
  readonly draft: string;
  /** Whether there is a chat at rest, which alone can be summarized. */
  readonly canCompact: boolean;
}

export function CommandHints({ draft, canCompact }: Props): JSX.Element | null {
  if (!/^\/\w*$/.test(draft)) return null;
  return (
    <ul class="command-hints" aria-label="Commands">
      {COMMANDS.filter(([name]) => name.startsWith(draft) && (canCompact || name !== "/compact")).map(
        ([name, words]) => (
          <li key={name}>
            <button
              type="button"
              class="button small quiet"
              onClick={() => {
                saveDraft(`${name} `);
                focusComposer();
              }}
            >
              <code>{name}</code> <span class="muted">{words}</span>
            </button>
          </li>
        ),
      )}
    </ul>
  );
}
