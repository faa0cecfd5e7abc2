/** The one live region for screen readers: it says what is settled, never what still grows. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { sentencesOf } from "../markdown/spoken.ts";
import type { EndingEntry, OpenSession } from "../state.ts";
import { askWords } from "./ask_words.ts";
import { answerOf } from "./rows.ts";

const SAID_CHARS_MAX = 2000;

export function Announcer({ here }: { readonly here: OpenSession }): JSX.Element {
  const [sentences, setSentences] = useState<readonly string[]>([]);
  const known = useRef<{ id: string; ending: string; ask: string } | null>(null);
  const entries = here.entries.value;
  const ending = entries.findLast((entry): entry is EndingEntry => entry.kind === "ending");
  const ask = here.openAsks.value[0];
  const stage = here.stage.value;
  useEffect(() => {
    // a chat that begins here has nothing to be read yet, however much is there once the server tells of it
    if (stage !== "ready" && stage !== "new") return;
    const now = { id: here.id, ending: ending?.key ?? "", ask: ask?.ask_id ?? "" };
    const before = known.current;
    known.current = now;
    // what was there when the page opened is read at the reader's own pace
    if (before === null || before.id !== here.id) return;
    if (ask !== undefined && before.ask !== now.ask) setSentences([askWords(ask).slice(0, SAID_CHARS_MAX)]);
    else if (ending !== undefined && before.ending !== now.ending)
      setSentences(spokenEnding(ending, answerOf(entries, ending.run_id)));
  }, [here.id, ending, ask, stage]);
  return (
    <div class="unseen" role="status" aria-live="polite">
      {/* each by itself: words of two lines must not become one */}
      {sentences.map((sentence, at) => (
        <p key={at}>{sentence}</p>
      ))}
    </div>
  );
}

function spokenEnding(ending: EndingEntry, answer: string): readonly string[] {
  const said = sentencesOf(answer.slice(0, SAID_CHARS_MAX));
  return ending.outcome === "completed" ? said : [`${ending.words}.`, ...said];
}
