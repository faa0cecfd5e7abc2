/** The conversation: rows in their order, older ones on the way up, and what happens now at the end. */
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { Icon } from "../icons.tsx";
import {
  type Hit,
  loadOlder,
  type Message,
  missTarget,
  type OpenSession,
  type Pending,
  trimOlder,
} from "../state.ts";
import { useActing } from "./acting.ts";
import { Announcer } from "./announcer.tsx";
import { type AnyRow, ChapterView, type UnplacedRow } from "./chapter.tsx";
import { type Chapter, chaptersOf, ROWS_KEPT } from "./chapters.ts";
import { useFollowing } from "./following.ts";
import { Live } from "./live_line.tsx";
import { MarkPlace } from "./mark_place.tsx";
import { Problem } from "./problem.tsx";
import { startingOf } from "./queue_place.tsx";
import { rowAt, rowsOf, type TalkRow } from "./rows.ts";
import { SupersededPlace } from "./superseded_place.tsx";

export function Transcript({ here }: { readonly here: OpenSession }): JSX.Element {
  const rows = useRows(here);
  const older = useActing();
  const more = (): void => {
    if (here.hasOlder.value && !here.loadingOlder.value && older.trouble === "") void older.act(loadOlder);
  };
  const { scroller, column, atBottom, jump, look } = useFollowing({
    sessionId: here.id,
    firstKey: rows[0]?.key ?? "",
    onNearTop: more,
  });
  useEffect(() => {
    if (atBottom) trimOlder();
  }, [atBottom]);
  const sent = here.pending.value.length;
  const sentBefore = useRef(sent);
  useEffect(() => {
    // what one has just said is what one wants to see
    if (sent > sentBefore.current) jump();
    sentBefore.current = sent;
  }, [sent, jump]);
  const lastPerson = rows.findLast((row) => row.kind === "person");
  const lastEnding = rows.findLast((row) => row.kind === "ending");
  const starting = startingOf(here);
  const unplaced = [...(starting === null ? [] : [starting]), ...here.pending.value].map(unplacedRow);
  const all: readonly AnyRow[] = [...rows, ...unplaced];
  const chapters = useChapters(all);
  const found = foundIn(here, rows);
  const target = here.target.value;
  const looked = useRef<Hit | null>(null);
  useLayoutEffect(() => {
    // once for each search, also when it leads to the same row; later it would only pull the reader away
    if (found === undefined || looked.current === target) return;
    looked.current = target;
    return look(".talk-row.found");
  }, [found, target, look]);
  const isMissed =
    target !== null && found === undefined && here.stage.value === "ready" && !isAbove(here, target);
  useEffect(() => {
    if (isMissed) missTarget(target);
  }, [isMissed, target]);
  return (
    <div class="transcript-frame">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <section class="transcript" ref={scroller} tabIndex={0} aria-label="Conversation">
        <div class="column" ref={column}>
          <Above here={here} trouble={older.trouble} onAgain={() => older.act(loadOlder)} />
          {chapters.map((chapter, at) => (
            <ChapterView
              key={chapter.key}
              chapter={chapter}
              leaves={all.length > ROWS_KEPT && at < chapters.length - 1}
              isFar={target !== null}
              lastPerson={held(chapter, lastPerson)}
              lastEnding={held(chapter, lastEnding)}
              found={held(chapter, found)}
            />
          ))}
          <SupersededPlace here={here} />
          <MarkPlace here={here} />
          <Live here={here} />
        </div>
      </section>
      <Seeking here={here} />
      {atBottom ? null : (
        <button
          type="button"
          class="jump"
          aria-label="Jump to the newest message"
          title="Jump to the newest message"
          onClick={jump}
        >
          <Icon name="down" />
        </button>
      )}
      <Announcer here={here} />
    </div>
  );
}

function useRows(here: OpenSession): readonly TalkRow[] {
  const before = useRef<readonly TalkRow[]>([]);
  const entries = here.entries.value;
  const rows = useMemo(() => rowsOf(entries, before.current), [entries]);
  before.current = rows;
  return rows;
}

function useChapters(rows: readonly AnyRow[]): readonly Chapter<AnyRow>[] {
  const before = useRef<readonly Chapter<AnyRow>[]>([]);
  before.current = chaptersOf(rows, before.current);
  return before.current;
}

/** The row that a search leads to, once it is here. */
function foundIn(here: OpenSession, rows: readonly TalkRow[]): TalkRow | undefined {
  const target = here.target.value;
  return target === null || isAbove(here, target) ? undefined : rowAt(rows, target);
}

function isAbove(here: OpenSession, { seq }: Hit): boolean {
  return here.hasOlder.value && (here.entries.value[0]?.seq ?? 0) > seq;
}

/** That the message of a search is on its way here, or why it is not. */
function Seeking({ here }: { readonly here: OpenSession }): JSX.Element {
  const target = here.target.value;
  const seeks = target !== null && isAbove(here, target);
  return (
    <div class="seeking" role="status">
      {seeks ? (
        <p class="muted">
          <span class="spinner" />
          Finding the message
        </p>
      ) : (
        <Problem words={here.missed.value} />
      )}
    </div>
  );
}

function held(chapter: Chapter<AnyRow>, row: AnyRow | undefined): AnyRow | null {
  return row !== undefined && chapter.rows.includes(row) ? row : null;
}

function unplacedRow(one: Pending | Message): UnplacedRow {
  const pending = "made_ms" in one ? one : null;
  const atMs = "made_ms" in one ? one.made_ms : one.at_ms;
  const key = `person:${one.client_id || ("message_id" in one ? one.message_id : "")}`;
  return { kind: "unplaced", key, said: { text: one.text, parts: one.parts, atMs, entry: null, pending } };
}

interface AboveProps {
  readonly here: OpenSession;
  readonly trouble: string;
  readonly onAgain: () => void;
}

function Above({ here, trouble, onAgain }: AboveProps): JSX.Element | null {
  if (!here.hasOlder.value) return null;
  return (
    <div class="above">
      {trouble === "" ? (
        <span class="muted">
          <span class="spinner" /> Loading older messages
        </span>
      ) : (
        <>
          <Problem words={trouble} />
          <button type="button" class="button small" onClick={onAgain}>
            Try again
          </button>
        </>
      )}
    </div>
  );
}
