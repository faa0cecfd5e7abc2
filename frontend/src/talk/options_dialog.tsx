/** How the model answers this browser's next messages: effort, temperature and length. */
import type { JSX } from "preact";
import { useId } from "preact/hooks";
import { Choices } from "../frame/choices.tsx";
import { Dialog } from "../frame/dialog.tsx";
import { closeDialog } from "../frame/ui.ts";
import { changeSettings, settings } from "../state.ts";

export function OptionsDialog(): JSX.Element {
  const { effort, temperature, maxTokens } = settings.value;
  return (
    <Dialog title="Model options" onClose={() => closeDialog("options")}>
      <Choices<string>
        legend="Effort"
        value={effort}
        options={[
          { value: "", words: "Default" },
          { value: "low", words: "Low" },
          { value: "medium", words: "Medium" },
          { value: "high", words: "High" },
        ]}
        onChange={(picked) => changeSettings({ effort: picked })}
      />
      <Amount
        words="Temperature, from 0 to 2"
        value={temperature}
        max={2}
        step="any"
        onChange={(given) => changeSettings({ temperature: given })}
      />
      <Amount
        words="Maximum tokens of each answer"
        value={maxTokens}
        min={1}
        step="1"
        onChange={(given) => changeSettings({ maxTokens: given })}
      />
      <p class="fine muted">
        For your next messages. If the model doesn't support an option, the message isn't sent.
      </p>
    </Dialog>
  );
}

interface AmountProps {
  readonly words: string;
  readonly value: string;
  readonly min?: number;
  readonly max?: number;
  readonly step: string;
  readonly onChange: (given: string) => void;
}

/** A number, or nothing for the model's default; what isn't allowed is marked and not kept. */
function Amount({ words, value, min = 0, max, step, onChange }: AmountProps): JSX.Element {
  const id = useId();
  return (
    <div class="setting form-line">
      <label for={id}>{words}</label>
      <input
        id={id}
        type="number"
        class="field"
        placeholder="Default"
        defaultValue={value}
        min={min}
        {...(max === undefined ? {} : { max })}
        step={step}
        onInput={({ currentTarget: field }) => {
          if (field.reportValidity()) onChange(field.value);
        }}
      />
    </div>
  );
}
