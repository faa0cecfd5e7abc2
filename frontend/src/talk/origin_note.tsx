/** Says of a chat that began elsewhere where it comes from, and where answers go. */
import type { JSX } from "preact";
import { addressOf } from "../frame/address.ts";
import { open } from "../state.ts";

interface OriginNoteProps {
  /** The platform, or "Automation"; "" if a person began it here. */
  readonly from: string;
  /** The chat that it was forked from; "" if it wasn't. */
  readonly source: string;
}

export function OriginNote({ from, source }: OriginNoteProps): JSX.Element {
  return (
    <p class="origin-note">
      {from === "" ? "" : wordsOf(from)}
      {source === "" ? null : (
        <>
          {" "}
          This chat is a fork.{" "}
          <a
            class="more"
            href={addressOf(source)}
            onClick={(event) => {
              event.preventDefault();
              open(source);
            }}
          >
            Open the original
          </a>
        </>
      )}
    </p>
  );
}

function wordsOf(from: string): string {
  return from === "Automation"
    ? "An automation started this chat. Answers to messages you send here appear only here."
    : `This chat comes from ${from}. Answers to messages you send here appear only here, not in ${from}.`;
}
