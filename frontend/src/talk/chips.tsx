/** Below the text: which model answers and how much it thinks, where it works, how full its context is and what it cost. */
import type { JSX } from "preact";
import type { TargetState } from "../bodies.ts";
import { count, money, percent } from "../format.ts";
import { dialog } from "../frame/ui.ts";
import { Icon } from "../icons.tsx";
import { harmless } from "../markdown/safe.ts";
import { changeSettings, session, settings, targets } from "../state.ts";

export function Chips(): JSX.Element {
  return (
    <div class="chips">
      <Model />
      <Options />
      <Workspace />
      <Context />
    </div>
  );
}

function Model(): JSX.Element | null {
  const known = targets.value;
  const first = known[0];
  if (first === undefined) return null;
  const chosen = known.find((target) => target.name === settings.value.model) ?? first;
  const title = `Model: ${modelName(chosen)} (target ${harmless(chosen.name)})`;
  if (known.length === 1)
    return (
      <span class="chip" title={title}>
        <Icon name="bolt" />
        <span class="chip-words">{modelName(first)}</span>
      </span>
    );
  return (
    <label class="chip pick" title={title}>
      <Icon name="bolt" />
      <span class="unseen">Model</span>
      <select
        value={chosen === first ? "" : chosen.name}
        onChange={(event) => changeSettings({ model: event.currentTarget.value })}
      >
        {known.map((target) => (
          <option key={target.name} value={target === first ? "" : target.name}>
            {modelName(target)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The model's name, and its target's if others have the same model. */
function modelName({ name, model }: TargetState): string {
  const isShared = targets.value.filter((other) => other.model === model).length > 1;
  return harmless(!model ? name : isShared ? `${model} · ${name}` : model);
}

/** How the model answers; its dialog has what few people change. */
function Options(): JSX.Element | null {
  if (targets.value.length === 0) return null;
  const { effort, temperature, maxTokens } = settings.value;
  const words = [`${effort || "default"} effort`, temperature, maxTokens].filter(Boolean).join(" · ");
  return (
    <button
      type="button"
      class="chip pick"
      title="Effort, temperature and length"
      onClick={() => {
        dialog.value = "options";
      }}
    >
      {words}
    </button>
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

/** How full the context is; it opens the whole of it. */
function Context(): JSX.Element | null {
  const here = session.value;
  if (here === null) return null;
  const { used, window } = here.context.value;
  const { cost_usd } = here.usage.value;
  if (used === 0) return null;
  const share = window > 0 ? Math.min(1, used / window) : 0;
  const words = `${count(used)}${window > 0 ? ` of ${count(window)}` : ""} context tokens used`;
  return (
    <button
      type="button"
      class={`chip pick${share > 0.75 ? " tone-warn" : ""}`}
      title={words}
      onClick={() => {
        dialog.value = "context";
      }}
    >
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
      <span class="unseen">{words}</span>
      {cost_usd ? <span>· {money(cost_usd)}</span> : null}
    </button>
  );
}
