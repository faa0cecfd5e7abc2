/** Plans in the chat: the newest one above the composer, and a chip while plan mode is on. */
import type { JSX } from "preact";
import { Icon } from "../../icons.tsx";
import { has, type OpenSession } from "../../state.ts";
import { useParts } from "../../talk/fetched.ts";

/** The newest plan, as long as its run works, or until its steps are done. */
export function PlanPlace({ here }: { readonly here: OpenSession }): JSX.Element | null {
  const plan = has("plans") ? here.plan.value : null;
  const isWorking = plan !== null && here.currentRun.value?.run_id === plan.run_id;
  const isOpen = plan?.steps.some((step) => step.state !== "completed") ?? false;
  const parts = useParts(isWorking || isOpen);
  return parts && plan && <parts.PlanCard plan={plan} />;
}

/** Says that the agent only reads until a person accepts its plan, and ends that. */
export function PlanMode({ onEnd }: { readonly onEnd: () => void }): JSX.Element {
  const title = "Read-only until you accept a plan. Click to exit.";
  return (
    <button type="button" class="chip pick plan-mode" title={title} onClick={onEnd}>
      <Icon name="check" />
      <span>Plan first</span>
      <Icon name="close" />
    </button>
  );
}
