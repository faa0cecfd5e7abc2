/** Says of a chat that began elsewhere where it comes from, and where answers go. */
import type { JSX } from "preact";

export function OriginNote({ from }: { readonly from: string }): JSX.Element {
  return (
    <p class="origin-note">
      {from === "Automation"
        ? "An automation started this chat. What you write here is answered only here."
        : `This chat comes from ${from}. What you write here is answered only here, not in ${from}.`}
    </p>
  );
}
