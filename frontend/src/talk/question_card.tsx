/** A question of the model: numbered choices, and room for words of one's own. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Icon } from "../icons.tsx";
import { harmless } from "../markdown/safe.ts";
import type { AskBodyProps } from "./asks.tsx";
import { Prose } from "./prose.tsx";

type Props = Pick<AskBodyProps, "ask" | "disabled" | "onAnswer">;

export function QuestionCard({ ask, disabled, onAnswer }: Props): JSX.Element {
  const [own, setOwn] = useState("");
  const answer = (text: string): void => {
    if (text.trim() !== "" && !disabled) onAnswer(text);
  };
  return (
    <div class="question">
      <Prose text={ask.text} />
      {ask.choices.length === 0 ? null : (
        <ol class="choices">
          {ask.choices.map((choice, at) => (
            <li key={choice}>
              <button
                type="button"
                class="choice numbered"
                disabled={disabled}
                onClick={() => answer(choice)}
              >
                <span class="choice-number">{at + 1}</span>
                <span dir="auto">{harmless(choice)}</span>
              </button>
            </li>
          ))}
        </ol>
      )}
      <form
        class="own-answer"
        onSubmit={(event) => {
          event.preventDefault();
          answer(own);
        }}
      >
        <input
          class="field"
          aria-label="Your answer"
          placeholder={ask.choices.length === 0 ? "Your answer" : "Or type your own answer"}
          value={own}
          onInput={(event) => setOwn(event.currentTarget.value)}
        />
        <button type="submit" class="button primary" disabled={disabled || own.trim() === ""}>
          <Icon name="send" />
          Answer
        </button>
      </form>
    </div>
  );
}
