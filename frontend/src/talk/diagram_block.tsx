/** A Mermaid diagram: its source at first, and the drawing as soon as there is one. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Picture } from "../diagram/draw.ts";
import type { Code } from "../markdown/nodes.ts";
import { settings } from "../state.ts";
import { ShadedText } from "./code_block.tsx";
import { CopyButton } from "./copy_button.tsx";

const DARK = matchMedia("(prefers-color-scheme: dark)");

function useDark(): boolean {
  const [systemIsDark, setSystemIsDark] = useState(DARK.matches);
  useEffect(() => {
    const look = (): void => setSystemIsDark(DARK.matches);
    DARK.addEventListener("change", look);
    return () => DARK.removeEventListener("change", look);
  }, []);
  const { theme } = settings.value;
  return theme === "system" ? systemIsDark : theme === "dark";
}

export function DiagramBlock({ code: { text } }: { readonly code: Code }): JSX.Element {
  const isDark = useDark();
  const [picture, setPicture] = useState<Picture | null>(null);
  const [asSource, setAsSource] = useState(false);
  const [hasFailed, setHasFailed] = useState(false);
  useEffect(() => {
    let isWanted = true;
    const show = (drawn: Picture | null): void => {
      if (!isWanted) return;
      setPicture(drawn);
      setHasFailed(drawn === null);
    };
    import("../diagram/draw.ts").then(({ draw }) => draw(text, isDark)).then(show, () => show(null));
    return () => {
      isWanted = false;
    };
  }, [text, isDark]);
  return (
    <figure class="code">
      <figcaption class="code-head">
        <span class="code-language">Mermaid{hasFailed ? " · can't be drawn" : ""}</span>
        <span class="spread" />
        {picture === null ? null : (
          <button type="button" class="button small" onClick={() => setAsSource(!asSource)}>
            {asSource ? "Show diagram" : "Show source"}
          </button>
        )}
        <CopyButton text={() => text} what="code" words="Copy" />
      </figcaption>
      {picture === null || asSource ? (
        <ShadedText text={text} language="" label="Code, Mermaid" />
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        <div class="diagram" tabIndex={0} role="group" aria-label="Diagram">
          <img
            src={picture.src}
            width={picture.width}
            height={picture.height}
            alt={`Diagram (${text.trim().split(/\s/, 1)[0]}). Show its source to read it.`}
            onError={() => {
              setPicture(null);
              setHasFailed(true);
            }}
          />
        </div>
      )}
    </figure>
  );
}
