/** The place of the newest plan: as long as its run works, or until its steps are done. */
import type { JSX } from "preact";
import type { OpenSession } from "../state.ts";
import { useParts } from "./fetched.ts";

export function PlanPlace({ here }: { readonly here: OpenSession }): JSX.Element | null {
  const plan = here.plan.value;
  const isWorking = plan !== null && here.currentRun.value?.run_id === plan.run_id;
  const isOpen = plan?.steps.some((step) => step.state !== "completed") ?? false;
  const parts = useParts(isWorking || isOpen);
  return parts && plan && <parts.PlanCard plan={plan} />;
}
