/** One of a few, side by side. */
import type { JSX } from "preact";
import { Icon, type IconName } from "../icons.tsx";

interface ChoicesProps<Value extends string> {
  readonly legend: string;
  readonly value: Value;
  readonly options: readonly { readonly value: Value; readonly words: string; readonly icon?: IconName }[];
  readonly onChange: (value: Value) => void;
}

export function Choices<Value extends string>(props: ChoicesProps<Value>): JSX.Element {
  return (
    <fieldset class="setting">
      <legend>{props.legend}</legend>
      <div class="segments">
        {props.options.map(({ value, words, icon }) => (
          <label key={value} class="segment">
            <input
              type="radio"
              class="unseen"
              name={props.legend}
              value={value}
              checked={props.value === value}
              onChange={() => props.onChange(value)}
            />
            {icon ? <Icon name={icon} /> : null}
            {words}
          </label>
        ))}
      </div>
    </fieldset>
  );
}
