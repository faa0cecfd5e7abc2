/** Search over all that was said: a box on top of the list, and the place of what was found. */
import { useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Icon } from "../icons.tsx";
import { hint, isComposing } from "../keys.ts";
import { search, searchFor, searchIn, searchWithin, session } from "../state.ts";
import { useParts } from "../talk/fetched.ts";
import { isMac } from "./ui.ts";

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

/** The place of what was found. */
export function SearchHits(): JSX.Element {
  const parts = useParts(true);
  return parts ? <parts.Hits /> : <section class="sidebar-list" aria-label="Search results" aria-busy />;
}
