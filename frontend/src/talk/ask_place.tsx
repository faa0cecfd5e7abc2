/** The place of the cards that ask a person. */
import type { JSX } from "preact";
import { childAsks, type OpenSession } from "../state.ts";
import { notFetched, useParts } from "./fetched.ts";

export function AskPlace({ here }: { readonly here: OpenSession }): JSX.Element | null {
  const isAsked = here.openAsks.value.length + childAsks.value.length > 0;
  const parts = useParts(isAsked);
  if (parts !== null) return <parts.Asks here={here} />;
  return isAsked && notFetched.value ? (
    <p class="problem" role="alert">
      The agent needs an answer, but this page can't show the request.{" "}
      <button type="button" class="button small" onClick={() => location.reload()}>
        Reload
      </button>
    </p>
  ) : null;
}
