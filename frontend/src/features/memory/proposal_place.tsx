/** The place of this chat's memory and skill proposals, which are also in the inbox. */
import type { JSX } from "preact";
import { type OpenSession, proposals } from "../../state.ts";
import { useParts } from "../../talk/fetched.ts";

export function ProposalPlace({ here }: { readonly here: OpenSession }): JSX.Element | null {
  const open = proposals.value.filter(({ proposal }) => proposal.origin?.session_id === here.id);
  const parts = useParts(open.length > 0);
  return parts && <parts.Proposals open={open} />;
}
