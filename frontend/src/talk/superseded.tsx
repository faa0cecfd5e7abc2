/** Cut-off text, shown until the new text is as long, so that people can keep reading. */
import type { JSX } from "preact";
import type { RunView } from "../state.ts";
import { Prose } from "./prose.tsx";

const CAUSES = {
  restart: "Cut off by the restart. A new answer is being written.",
  retry: "The model stopped mid-answer. A new answer is being written.",
} as const;

export function Superseded({ run }: { readonly run: RunView }): JSX.Element | null {
  const old = run.superseded;
  let written = 0;
  for (const entry of run.texts.values()) {
    // read it, so that this is drawn again when the text grows
    if (entry.version.value >= 0) written += entry.text.length;
  }
  if (old === null || written >= old.text.length) return null;
  return (
    <section class="superseded" aria-label="Superseded text">
      <p class="superseded-cause">{CAUSES[old.cause]}</p>
      <Prose text={old.text} />
    </section>
  );
}
