/** What the provider said and what was tried before a run ended, folded. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { harmless } from "../markdown/safe.ts";
import type { EndingEntry } from "../state.ts";
import { CopyButton } from "./copy_button.tsx";

export function EndingDetails({ entry }: { readonly entry: EndingEntry }): JSX.Element | null {
  const [open, setOpen] = useState(false);
  const text = detailsOf(entry);
  if (text === "") return null;
  return (
    <>
      <button type="button" class="more" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? "Hide details" : "Details"}
      </button>
      {open ? (
        <div class="details">
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
          <pre tabIndex={0} role="group" aria-label="Details">
            {text}
          </pre>
          <CopyButton text={() => text} what="details" words="Copy" />
        </div>
      ) : null}
    </>
  );
}

function detailsOf(entry: EndingEntry): string {
  const { failure, trace } = entry;
  const facts =
    failure === null
      ? []
      : [
          `kind: ${failure.kind}`,
          ...(failure.status ? [`status: ${failure.status}`] : []),
          ...(failure.code ? [`code: ${failure.code}`] : []),
          ...(failure.rule ? [`rule: ${failure.rule}`] : []),
          ...(failure.hint ? [`hint: ${failure.hint}`] : []),
          failure.text,
        ];
  const shown = entry.outcome === "budget" ? trace.slice(1) : trace;
  const lines = [...facts, ...(shown.length > 0 ? ["", ...shown] : [])];
  return lines.length === 0 ? "" : harmless([...lines, "", `run: ${entry.run_id}`].join("\n"));
}
