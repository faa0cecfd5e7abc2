/** Says that the browser's own search sees only a part of a long chat, and offers the one that sees all of it. */
import type { JSX } from "preact";
import { Icon } from "../icons.tsx";
import { session } from "../state.ts";
import { findHere } from "./commands.ts";
import { findHint } from "./ui.ts";

export function FindHint(): JSX.Element | null {
  if (findHint.value === "" || findHint.value !== session.value?.id) return null;
  return (
    <section class="find-hint" aria-label="Search hint">
      <span role="status">Your browser only searches the loaded part of this chat.</span>
      <button type="button" class="button small" onClick={findHere}>
        <Icon name="search" />
        Search the whole chat
      </button>
      <button
        type="button"
        class="icon-button"
        aria-label="Dismiss"
        onClick={() => {
          findHint.value = "";
        }}
      >
        <Icon name="close" />
      </button>
    </section>
  );
}
