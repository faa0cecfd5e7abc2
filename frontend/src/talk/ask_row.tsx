/** An ask in the transcript: a question with its answer, an approval in one line. */
import type { JSX } from "preact";
import { Icon } from "../icons.tsx";
import { harmless } from "../markdown/safe.ts";
import type { AskEntry } from "../state.ts";
import { ASKS, askLine } from "./ask_words.ts";
import { Prose } from "./prose.tsx";

export function AskRow({ entry }: { readonly entry: AskEntry }): JSX.Element | null {
  entry.version.value;
  if (entry.ask === "approval") return <p class="work-line">{askLine(entry)}</p>;
  // while it's open, its card is above the composer
  if (entry.state === "open") return null;
  return (
    <article class="asked" aria-label="Question">
      <div class="asked-words" dir="auto">
        <Icon name={ASKS.question.icon} />
        <Prose text={entry.text} />
      </div>
      {entry.state === "answered" ? (
        <p class="asked-answer" dir="auto">
          <span class="unseen">You answered: </span>
          {harmless(entry.answer)}
        </p>
      ) : (
        <p class="muted small-words">{askLine(entry)}</p>
      )}
    </article>
  );
}
