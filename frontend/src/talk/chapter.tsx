/** A chapter of the conversation: its rows while they are in sight or near, else as much empty room as they took. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { AgentSaidPlace } from "../features/delegation/agent_places.tsx";
import type { NoticeEntry, TextEntry } from "../state.ts";
import { Activity } from "./activity.tsx";
import { AskRow } from "./ask_row.tsx";
import type { Chapter } from "./chapters.ts";
import { Ending } from "./ending.tsx";
import { useParts } from "./fetched.ts";
import { memo } from "./memo.tsx";
import { Person, type Said } from "./person.tsx";
import { GrowingProse } from "./prose.tsx";
import type { TalkRow } from "./rows.ts";

/** A message that has no place in the log yet; under its key it becomes the one that has. */
export interface UnplacedRow {
  readonly kind: "unplaced";
  readonly key: string;
  readonly said: Said;
}

export type AnyRow = TalkRow | UnplacedRow;

const NEAR = "3000px 0px";
const ROW_PX = 110;

export interface ChapterProps {
  readonly chapter: Chapter<AnyRow>;
  /** Whether it may leave the page. */
  readonly leaves: boolean;
  /** Whether it begins as empty room, since many came at once. */
  readonly isFar: boolean;
  /** The last message and the last ending of all, where they are in this chapter. */
  readonly lastPerson: AnyRow | null;
  readonly lastEnding: AnyRow | null;
  /** What a search led to, if it is in this chapter. */
  readonly found: AnyRow | null;
}

export const ChapterView = memo((props: ChapterProps): JSX.Element => {
  const { chapter, leaves, isFar, lastPerson, lastEnding, found } = props;
  const element = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState(isFar && leaves ? chapter.rows.length * ROW_PX : 0);
  useEffect(() => {
    if (!leaves || element.current === null) return;
    const sight = new IntersectionObserver((seen) => setRoom(roomFor(seen.at(-1))), {
      root: element.current.closest(".transcript"),
      rootMargin: NEAR,
    });
    sight.observe(element.current);
    return () => sight.disconnect();
  }, [leaves]);
  const wasAway = useRef(false);
  const isEmpty = leaves && room > 0 && found === null;
  wasAway.current ||= isEmpty;
  return (
    <div
      ref={element}
      class={`chapter${wasAway.current ? " back" : ""}`}
      style={isEmpty ? { height: `${room}px` } : {}}
    >
      {isEmpty
        ? null
        : chapter.rows.map((row) => (
            <RowView
              key={row.key}
              row={row}
              last={row === lastPerson || row === lastEnding}
              found={found === row}
            />
          ))}
    </div>
  );
});

/** How much room to leave for what goes: none while it is near, or while someone is at it. */
function roomFor(seen: IntersectionObserverEntry | undefined): number {
  if (seen === undefined || seen.isIntersecting) return 0;
  const { target } = seen;
  const isUsed =
    target.matches(":focus-within") ||
    target.querySelector('[aria-expanded="true"]') !== null ||
    document.getSelection()?.containsNode(target, true);
  return isUsed ? 0 : seen.boundingClientRect.height;
}

interface RowProps {
  readonly row: AnyRow;
  readonly last: boolean;
  readonly found: boolean;
}

const RowView = memo(({ row, last, found }: RowProps): JSX.Element => {
  const kind = row.kind === "unplaced" ? "person" : row.kind;
  return (
    <div class={`talk-row ${kind}-row${found ? " found" : ""}`} tabIndex={found ? -1 : undefined}>
      {contentOf(row, last)}
    </div>
  );
});

function contentOf(row: AnyRow, last: boolean): JSX.Element | null {
  switch (row.kind) {
    case "unplaced":
      return <Person said={row.said} last={false} />;
    case "person": {
      const { entry } = row;
      const { text, parts, child } = entry.message;
      if (child !== "") return <AgentSaidPlace session={child} text={text} />;
      return <Person said={{ text, parts, atMs: entry.at_ms, entry, pending: null }} last={last} />;
    }
    case "text":
      return <Answer entry={row.entry} />;
    case "activity":
      return <Activity work={row.work} />;
    case "ask":
      return <AskRow entry={row.entry} />;
    case "notice":
      // A note is for the model alone; people see what changed where they changed it.
      return row.entry.notice === "noted" ? null : <NoticePlace entry={row.entry} />;
    case "ending":
      return <Ending entry={row.entry} last={last} />;
  }
}

function NoticePlace({ entry }: { readonly entry: NoticeEntry }): JSX.Element | null {
  const parts = useParts(true);
  return parts && <parts.Notice entry={entry} />;
}

function Answer({ entry }: { readonly entry: TextEntry }): JSX.Element {
  return (
    <article class="answer" aria-label="Assistant">
      <GrowingProse entry={entry} />
    </article>
  );
}
