/** Below the text: which model answers, where it works, how full its context is and what it cost. */
import type { JSX } from "preact";
import { count, money, percent } from "../format.ts";
import { Icon } from "../icons.tsx";
import { harmless } from "../markdown/safe.ts";
import { changeSettings, session, settings, targets } from "../state.ts";

export function Chips(): JSX.Element {
  return (
    <div class="chips">
      <Model />
      <Workspace />
      <Context />
    </div>
  );
}

function Model(): JSX.Element | null {
  const known = targets.value;
  const first = known[0];
  if (first === undefined) return null;
  const chosen = known.some((target) => target.name === settings.value.model) ? settings.value.model : "";
  if (known.length === 1)
    return (
      <span class="chip" title={`Model: ${harmless(first.model)}`}>
        <Icon name="bolt" />
        <span>{harmless(first.name)}</span>
      </span>
    );
  return (
    <label class="chip pick" title="Model">
      <Icon name="bolt" />
      <span class="unseen">Model</span>
      <select value={chosen} onChange={(event) => changeSettings({ model: event.currentTarget.value })}>
        <option value="">{harmless(first.name)} (default)</option>
        {known.slice(1).map((target) => (
          <option key={target.name} value={target.name}>
            {harmless(target.name)}
          </option>
        ))}
      </select>
    </label>
  );
}

function Workspace(): JSX.Element | null {
  const path = session.value?.row.value?.workspace ?? "";
  if (path === "") return null;
  const name = path.replace(/\/+$/, "").split("/").at(-1) || path;
  return (
    <span class="chip" title={`Workspace: ${harmless(path)}`}>
      <Icon name="folder" />
      <span class="chip-words">{harmless(name)}</span>
    </span>
  );
}

const RING = 2 * Math.PI * 7;

function Context(): JSX.Element | null {
  const here = session.value;
  if (here === null) return null;
  const { used, window } = here.context.value;
  const { cost_usd } = here.usage.value;
  if (used === 0) return null;
  const share = window > 0 ? Math.min(1, used / window) : 0;
  const room =
    window > 0
      ? `${count(used)} of ${count(window)} context tokens used`
      : `${count(used)} context tokens used`;
  const words = cost_usd ? `${room}, ${money(cost_usd)} so far` : room;
  return (
    <span class={`chip${share > 0.85 ? " tone-warn" : ""}`} role="img" aria-label={words} title={words}>
      <svg class="ring" viewBox="0 0 18 18" aria-hidden="true">
        <circle cx="9" cy="9" r="7" />
        <circle
          class="ring-used"
          cx="9"
          cy="9"
          r="7"
          stroke-dasharray={`${Math.max(0.6, share * RING)} ${RING}`}
        />
      </svg>
      <span>{window > 0 ? percent(used, window) : count(used)}</span>
      {cost_usd ? <span>· {money(cost_usd)}</span> : null}
    </span>
  );
}
