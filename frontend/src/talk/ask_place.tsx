/** The place of the cards that ask a person: it fetches them when the first one is needed. */
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { connection, type OpenSession } from "../state.ts";
import type * as Cards from "./asks.tsx";

const cards = signal<typeof Cards | null>(null);

export function AskPlace({ here }: { readonly here: OpenSession }): JSX.Element | null {
  const [failed, setFailed] = useState(false);
  const isAsked = here.openAsks.value.length > 0;
  const isLive = connection.value === "live";
  useEffect(() => {
    if (!isAsked || cards.value !== null) return;
    import("./asks.tsx").then(
      (found) => {
        cards.value = found;
      },
      () => setFailed(true),
    );
  }, [isAsked, isLive]);
  if (!isAsked) return null;
  if (cards.value !== null) return <cards.value.Asks here={here} />;
  // the server is out of reach, or has been updated since this page was loaded
  return failed ? (
    <p class="problem" role="alert">
      The agent asks you something that this page can't show.{" "}
      <button type="button" class="button small" onClick={() => location.reload()}>
        Reload
      </button>
    </p>
  ) : null;
}
