/** The one live region for screen readers: it says each sentence once, when it is complete. */
import { effect, untracked } from "@preact/signals";
import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { completeSentences } from "../markdown/spoken.ts";
import type { EndingEntry, Entry, OpenSession, TextEntry } from "../state.ts";
import { askWords } from "./ask_words.ts";

const SAID_CHARS_MAX = 2000;
// how often a growing text is looked at: nobody hears faster than this, and each look costs a little
const LOOK_MS = 1000;
const KEPT_MAX = 40;

/** What was said, each with a number of its own, so that none is said twice. */
interface Said {
  readonly id: number;
  readonly words: string;
}

/** How many sentences of each text were said; what was there at first is read at the reader's own pace. */
class Reader {
  readonly #said = new Map<string, number>();
  readonly #first: number;

  constructor(entries: readonly Entry[]) {
    const last = entries.findLast((entry): entry is TextEntry => entry.kind === "text");
    this.#first = last?.seq ?? 0;
    if (last !== undefined) this.#said.set(last.key, completeSentences(last.text, last.done).length);
  }

  /** The sentences that are complete by now and were not said yet. */
  fresh(entries: readonly Entry[], over: boolean): string[] {
    const texts = entries.filter(
      (entry): entry is TextEntry => entry.kind === "text" && entry.seq >= this.#first,
    );
    const last = texts.at(-1);
    return texts.flatMap((entry) => {
      const done = entry.done || over || entry !== last;
      const before = this.#said.get(entry.key) ?? 0;
      if (before === Number.POSITIVE_INFINITY) return [];
      const complete = completeSentences(entry.text, done);
      this.#said.set(entry.key, done ? Number.POSITIVE_INFINITY : Math.max(before, complete.length));
      return complete.slice(before);
    });
  }
}

export function Announcer({ here }: { readonly here: OpenSession }): JSX.Element {
  const [said, setSaid] = useState<readonly Said[]>([]);
  const count = useRef(0);
  const reader = useRef<{ readonly id: string; readonly of: Reader } | null>(null);
  const known = useRef<{ id: string; ending: string; ask: string } | null>(null);
  const entries = here.entries.value;
  const ending = entries.findLast((entry): entry is EndingEntry => entry.kind === "ending");
  const ask = here.openAsks.value[0];
  const stage = here.stage.value;
  // a chat that begins here has nothing to be read yet, however much is there once the server tells of it
  const isReady = stage === "ready" || stage === "new";

  const say = (words: readonly string[]): void => {
    if (words.length === 0) return;
    const more = words.map((one) => {
      count.current += 1;
      return { id: count.current, words: one };
    });
    setSaid((before) => [...before, ...more].slice(-KEPT_MAX));
  };

  // at once: what comes before the next frame is news already, and must not be taken for what was there
  useLayoutEffect(() => {
    if (!isReady) return;
    if (reader.current?.id !== here.id) reader.current = { id: here.id, of: new Reader(here.entries.peek()) };
    const { of } = reader.current;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = (): void => {
      timer = undefined;
      say(of.fresh(here.entries.peek(), here.currentRun.peek() === null));
    };
    const stopFollowing = effect(() => {
      here.entries.value.findLast((entry) => entry.kind === "text")?.version.value;
      here.currentRun.value;
      untracked(() => {
        timer ??= setTimeout(look, LOOK_MS);
      });
    });
    return () => {
      stopFollowing();
      clearTimeout(timer);
    };
  }, [here, isReady]);

  useLayoutEffect(() => {
    if (!isReady) return;
    const now = { id: here.id, ending: ending?.key ?? "", ask: ask?.ask_id ?? "" };
    const before = known.current;
    known.current = now;
    if (before === null || before.id !== here.id) return;
    const isEnding = ending !== undefined && before.ending !== now.ending;
    // what was said comes before what became of it
    if (isEnding) say(reader.current?.of.fresh(here.entries.peek(), true) ?? []);
    if (ask !== undefined && before.ask !== now.ask) say([askWords(ask).slice(0, SAID_CHARS_MAX)]);
    else if (isEnding && ending.outcome !== "completed") say([`${ending.words}.`]);
  }, [here.id, ending, ask, isReady]);

  return (
    // a log is read as it grows, not as a whole
    <div class="unseen" role="log" aria-live="polite" aria-label="Announcements">
      {/* each by itself: words of two lines must not become one */}
      {said.map(({ id, words }) => (
        <p key={id}>{words}</p>
      ))}
    </div>
  );
}
