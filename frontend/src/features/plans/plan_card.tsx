/** The agent's plan above the composer, and the same plan while a person may change and accept it. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { PlanStep } from "../../events.ts";
import { Icon } from "../../icons.tsx";
import { exact, harmless } from "../../markdown/safe.ts";
import { stepsDone } from "../../timeline.ts";
import type { SeenPlan } from "../../view.ts";

const STATES: Readonly<Record<NonNullable<PlanStep["state"]>, string>> = {
  pending: "To do",
  in_progress: "In progress",
  completed: "Done",
};

export function PlanCard({ plan: { steps } }: { readonly plan: SeenPlan }): JSX.Element {
  const [open, setOpen] = useState(true);
  const current = steps.find((step) => step.state === "in_progress");
  return (
    <section class="plan" aria-label="Plan">
      <button type="button" class="plan-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="check" />
        <strong>Plan</strong>
        <span class="muted">{stepsDone(steps)}</span>
        {open || current === undefined ? null : <span class="plan-now">{harmless(current.text)}</span>}
        <span class="spread" />
        <span class={open ? "turned" : ""}>
          <Icon name="chevron" />
        </span>
      </button>
      {open ? (
        <ol class="plan-steps">
          {steps.map((step, at) => (
            <li key={`${at} ${step.text}`} class={step.state ?? "pending"}>
              <span class="plan-state" role="img" aria-label={STATES[step.state ?? "pending"]} />
              <span dir="auto">{harmless(step.text)}</span>
            </li>
          ))}
        </ol>
      ) : null}
    </section>
  );
}

interface PlanEditorProps {
  readonly args: Readonly<Record<string, unknown>> | undefined;
  readonly disabled: boolean;
  /** Without steps, the plan is accepted as it is. */
  readonly onAccept: (steps?: readonly PlanStep[]) => void;
  readonly onReject: (event: Event) => void;
}

/** The proposed plan as text, one step per line: what is there when a person accepts it is the plan. */
export function PlanEditor({ args, disabled, onAccept, onReject }: PlanEditorProps): JSX.Element {
  const proposed = proposedSteps(args);
  const asText = proposed.map((step) => step.text).join("\n");
  const [text, setText] = useState(asText);
  const lines = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const isChanged = lines.join("\n") !== asText;
  return (
    <>
      <label class="plan-edit">
        <span class="small-words muted">One step per line. You can change them before you accept.</span>
        <textarea
          class="field"
          rows={Math.min(14, Math.max(3, lines.length + 1))}
          value={exact(text)}
          dir="auto"
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <div class="buttons">
        <button
          type="button"
          class="button primary numbered"
          data-key="y"
          disabled={disabled || lines.length === 0}
          onClick={() => onAccept(isChanged ? lines.map((line) => ({ text: line })) : undefined)}
        >
          {isChanged ? "Accept with changes" : "Accept plan"}
        </button>
        <span class="spread" />
        <button
          type="button"
          class="button danger numbered"
          data-key="n"
          disabled={disabled}
          onClick={onReject}
        >
          Reject…
        </button>
      </div>
    </>
  );
}

function proposedSteps(args: PlanEditorProps["args"]): readonly { readonly text: string }[] {
  const steps = Array.isArray(args?.steps) ? args.steps : [];
  return steps.flatMap((step: unknown) => {
    const text = typeof step === "object" && step !== null && "text" in step ? step.text : "";
    return typeof text === "string" ? [{ text: text.replace(/\s*\n\s*/g, " ") }] : [];
  });
}
