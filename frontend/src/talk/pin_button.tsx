/** Pins a message or an answer, so that summaries keep it word for word, or unpins it. */
import type { JSX } from "preact";
import { Icon } from "../icons.tsx";
import { pinMessage, session } from "../state.ts";
import type { Acting } from "./acting.ts";

interface PinProps {
  /** The message's id or, for an answer, its run's. */
  readonly id: string;
  readonly what: string;
  readonly acting: Acting;
}

export function PinButton({ id, what, acting }: PinProps): JSX.Element {
  const pinned = session.value?.pins.value.includes(id);
  const words = `${pinned ? "Unpin" : "Pin"} ${what}`;
  return (
    <button
      type="button"
      class={`icon-button small${pinned ? " pinned" : ""}`}
      aria-label={words}
      title={words}
      disabled={acting.busy}
      onClick={() => acting.act(() => pinMessage(id, !pinned))}
    >
      <Icon name="pin" />
    </button>
  );
}
