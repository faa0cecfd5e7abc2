/** What went wrong, where it went wrong. */
import type { JSX } from "preact";
import { quoted } from "./quoted.tsx";

export function Problem({ words }: { readonly words: string }): JSX.Element | null {
  return words === "" ? null : (
    <p class="problem" role="alert">
      {quoted(words)}
    </p>
  );
}
