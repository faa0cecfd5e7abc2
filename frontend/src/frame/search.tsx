/** Search over all that was said: a box on top of the list, and what was found in place of the list. */
import { useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { ago, plural } from "../format.ts";
import { Icon } from "../icons.tsx";
import { hint, isComposing } from "../keys.ts";
import { parseInline, plainText } from "../markdown/inline.ts";
import { type FoundSession, search, searchFor, searchIn, searchWithin, session } from "../state.ts";
import { addressOf } from "./address.ts";
import { showHit } from "./commands.ts";
import { Origin, titleOf } from "./session_row.tsx";
import { calmNowMs, isMac } from "./ui.ts";

export const SEARCH_ID = "search";

export function SearchBox(): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  const clear = (): void => {
    if (field.current) field.current.value = "";
    searchFor("");
    searchIn("");
  };
  useLayoutEffect(() => {
    // the list may have been away while its search went on
    if (field.current) field.current.value = search.peek()?.words ?? "";
  }, []);
  useSignalEffect(() => {
    if (searchWithin.value !== session.value?.id) searchIn("");
  });
  return (
    <search class="search">
      <Icon name="search" />
      <input
        ref={field}
        id={SEARCH_ID}
        class="field"
        type="search"
        aria-label="Search chats"
        placeholder="Search"
        autoComplete="off"
        maxLength={200}
        onInput={(event) => searchFor(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (isComposing(event)) return;
          if (event.key === "Escape") {
            event.preventDefault();
            clear();
            field.current?.blur();
          }
          if (event.key === "ArrowDown") {
            event.preventDefault();
            document.querySelector<HTMLElement>(".sidebar-list a.row-link")?.focus();
          }
        }}
      />
      {search.value ? (
        <button type="button" class="icon-button" aria-label="Clear search" onClick={clear}>
          <Icon name="close" />
        </button>
      ) : (
        <kbd>{hint("search", isMac)}</kbd>
      )}
    </search>
  );
}

/** All chats or the open one, once there is something to look for. */
export function SearchScope(): JSX.Element | null {
  const own = session.value?.row.value?.id ?? "";
  const within = searchWithin.value;
  if (own === "" || (search.value === null && within === "")) return null;
  return (
    <fieldset class="segments scope" aria-label="Where to search">
      {[
        { id: "", words: "All chats" },
        { id: own, words: "This chat" },
      ].map(({ id, words }) => (
        <label key={words} class="segment">
          <input
            type="radio"
            class="unseen"
            name="scope"
            checked={within === id}
            onChange={() => searchIn(id)}
          />
          {words}
        </label>
      ))}
    </fieldset>
  );
}

export function SearchHits(): JSX.Element {
  const { words, busy, found, trouble } = search.value ?? { words: "", busy: true, found: [], trouble: null };
  return (
    <section class="sidebar-list" aria-label="Search results" aria-busy={busy}>
      <p class="unseen" role="status">
        {busy ? "Searching…" : plural(found.length, "result")}
      </p>
      {trouble ? <p class="problem list-note">{trouble.message}</p> : null}
      {!busy && !trouble && found.length === 0 ? <p class="list-note">No results for “{words}”.</p> : null}
      <ul>
        {found.map((one) => (
          <HitRow key={`${one.id} ${one.hit.seq}`} one={one} />
        ))}
      </ul>
    </section>
  );
}

function HitRow({ one }: { one: FoundSession }): JSX.Element {
  return (
    <li class={session.value?.id === one.id && searchWithin.value === "" ? "row hit current" : "row hit"}>
      <a
        class="row-link"
        href={addressOf(one.id, one.hit.seq)}
        onClick={(event) => {
          if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
          event.preventDefault();
          showHit(one);
        }}
      >
        {searchWithin.value === "" ? <HitHead one={one} /> : null}
        <span class="hit-passage">{highlighted(one.hit)}</span>
      </a>
    </li>
  );
}

function HitHead({ one }: { one: FoundSession }): JSX.Element {
  return (
    <>
      <span class="row-title">{titleOf(one)}</span>
      <Origin row={one} />
      <span class="row-state">
        {one.archived ? <Icon name="archive" title="Archived" /> : null}
        {ago(one.updated_at * 1000, calmNowMs.value)}
      </span>
    </>
  );
}

// Stands for no letter, and for Markdown it is none of its marks.
const EDGE = "\uE000";

/** The passage as it reads, without its Markdown, and with the words that were found marked. */
function highlighted({ passage, highlights }: FoundSession["hit"]): (JSX.Element | string)[] {
  // The server counts code points, JavaScript counts halves of some of them.
  const letters = [...passage];
  for (const [begin, end] of highlights) {
    letters[begin] = EDGE + letters[begin];
    letters[end - 1] += EDGE;
  }
  const written = letters.join("");
  const read = plainText(parseInline(written));
  // The match may be inside an address, which isn't shown; then the source text is shown.
  const words = read.split(EDGE).length === written.split(EDGE).length ? read : written;
  return words.split(EDGE).map((piece, at) => (at % 2 === 1 ? <mark key={at}>{piece}</mark> : piece));
}
