/** Which version of a message this is, and the way to the others. */
import type { JSX } from "preact";
import { Icon } from "../icons.tsx";
import { showVersion, type Versions } from "../state.ts";

export function VersionSwitch({ versions }: { readonly versions: Versions }): JSX.Element {
  const { known, shown } = versions;
  const at = known.indexOf(shown);
  return (
    <fieldset class="versions" aria-label="Versions of this message">
      <button
        type="button"
        class="icon-button small"
        aria-label="Previous version"
        disabled={at === 0}
        onClick={() => showVersion(versions, -1)}
      >
        <Icon name="back" />
      </button>
      {at + 1}/{known.length}
      <button
        type="button"
        class="icon-button small"
        aria-label="Next version"
        disabled={at === known.length - 1}
        onClick={() => showVersion(versions, 1)}
      >
        <Icon name="chevron" />
      </button>
    </fieldset>
  );
}
