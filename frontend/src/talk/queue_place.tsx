/** The place of the messages that wait behind the current run. */
import type { JSX } from "preact";
import type { Message, OpenSession } from "../state.ts";
import { useParts } from "./fetched.ts";

/** The message that starts next: nothing is ahead of it, so it isn't shown as waiting. */
export function startingOf(here: OpenSession): Message | null {
  const first = here.waiting.value[0];
  const isFree = here.currentRun.value === null && !here.queuePaused.value;
  return first !== undefined && first.state === "queued" && isFree ? first : null;
}

export function QueuePlace({ here }: { readonly here: OpenSession }): JSX.Element | null {
  const starting = startingOf(here);
  const cards = here.waiting.value.filter((message) => message !== starting);
  const parts = useParts(cards.length > 0);
  return parts && <parts.QueueCards here={here} cards={cards} />;
}
