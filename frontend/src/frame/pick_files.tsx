/** A button that opens the browser's file picker. */
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { Icon, type IconName } from "../icons.tsx";

interface PickFilesProps {
  /** What the button does. */
  readonly label: string;
  /** What the picked files are for. */
  readonly purpose: string;
  readonly icon: IconName;
  readonly isSmall?: boolean;
  readonly onPick: (files: readonly File[]) => void;
}

/** A button that lets a person pick files of their machine. */
export function PickFiles({ label, purpose, icon, isSmall = false, onPick }: PickFilesProps): JSX.Element {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button
        type="button"
        class={isSmall ? "icon-button small" : "icon-button"}
        aria-label={label}
        title={label}
        onClick={() => input.current?.click()}
      >
        <Icon name={icon} />
      </button>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label={purpose}
        onChange={(event) => {
          onPick([...(event.currentTarget.files ?? [])]);
          event.currentTarget.value = "";
        }}
      />
    </>
  );
}
