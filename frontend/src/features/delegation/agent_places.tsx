/** The places of what is shown of sub-agents: under the work that started them, where one has ended, and in its head. */
import type { JSX } from "preact";
import { family } from "../../state.ts";
import { useParts } from "../../talk/fetched.ts";

/** The sub-agents that these calls started. */
export function AgentsPlace({ calls }: { readonly calls: readonly string[] }): JSX.Element | null {
  const parts = useParts(calls.length > 0 && family.value !== null);
  return parts && <parts.Agents calls={calls} />;
}

interface AgentSaidProps {
  readonly session: string;
  readonly text: string;
}

/** The ending of a sub-agent in the background. */
export function AgentSaidPlace(said: AgentSaidProps): JSX.Element | null {
  const parts = useParts(true);
  return parts && <parts.AgentSaid {...said} />;
}

/** Where a sub-agent's chat leads back to. */
export function ParentPlace(): JSX.Element | null {
  const parent = family.value?.parent;
  const parts = useParts(parent !== undefined);
  return parts && parent ? <parts.ParentLink parent={parent} /> : null;
}
