/** A button that copies, and says for a moment that it did. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Icon } from "../icons.tsx";
import { copyText } from "./copying.ts";

const SAID_MS = 1600;

interface CopyProps {
  readonly text: () => string;
  /** What is copied, for the button's name. */
  readonly what: string;
  /** Text next to the icon, if any. */
  readonly words?: string;
}

export function CopyButton({ text, what, words = "" }: CopyProps): JSX.Element {
  const [said, setSaid] = useState<"" | "Copied" | "Couldn't copy">("");
  useEffect(() => {
    if (said === "") return;
    const timer = setTimeout(() => setSaid(""), SAID_MS);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async (): Promise<void> => setSaid((await copyText(text())) ? "Copied" : "Couldn't copy");
  const name = said === "" ? `Copy ${what}` : said;
  return (
    <button
      type="button"
      class={words === "" ? "icon-button small" : "button quiet small"}
      aria-label={name}
      title={name}
      onClick={copy}
    >
      <Icon name={said === "" ? "copy" : said === "Copied" ? "check" : "warning"} />
      {words === "" ? null : <span>{said === "" ? words : said}</span>}
    </button>
  );
}
