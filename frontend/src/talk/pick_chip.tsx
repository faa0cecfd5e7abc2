/** A choice in the composer, as a select that looks like a chip. */
import type { JSX } from "preact";

export type Option = readonly [value: string, words: string, title: string];

interface PickChipProps {
  readonly label: string;
  readonly options: readonly Option[];
  readonly value: string;
  readonly tone?: string;
  readonly onPick: (value: string) => void;
}

export function PickChip({ label, options, value, tone = "", onPick }: PickChipProps): JSX.Element {
  const title = options.find(([one]) => one === value)?.[2] ?? "";
  return (
    <label class={`chip pick ${tone}`} title={`${label}: ${title}`}>
      <span class="unseen">{label}</span>
      <select
        value={value}
        onChange={({ currentTarget }) => {
          const picked = currentTarget.value;
          currentTarget.value = value; // until the value changes
          onPick(picked);
        }}
      >
        {options.map(([one, words, about]) => (
          <option key={one} value={one} title={about}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}
