/** Search results, in place of the list of chats. */
import type { JSX } from "preact";
import { ago, plural } from "../format.ts";
import { Icon } from "../icons.tsx";
import { parseInline, plainText } from "../markdown/inline.ts";
import { type FoundSession, search, searchWithin, session } from "../state.ts";
import { addressOf } from "./address.ts";
import { showHit } from "./commands.ts";
import { Origin, titleOf } from "./session_row.tsx";
import { calmNowMs } from "./ui.ts";

export function Hits(): JSX.Element {
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
