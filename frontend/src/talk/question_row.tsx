/** A question of the model and what a person answered. */
import type { JSX } from "preact";
import { Icon } from "../icons.tsx";
import { harmless } from "../markdown/safe.ts";
import type { AskEntry } from "../state.ts";
import { askLine } from "./tool_words.ts";

export function QuestionRow({ entry }: { readonly entry: AskEntry }): JSX.Element | null {
  entry.version.value;
  // as long as it is open, its card stands above the composer
  if (entry.state === "open") return null;
  const answered = entry.state === "answered";
  return (
    <article class="asked" aria-label="Question">
      <p class="asked-words" dir="auto">
        <Icon name="question" />
        <span>{harmless(entry.text)}</span>
      </p>
      {answered ? (
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
