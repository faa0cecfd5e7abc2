/** The conversation: rows in their order, older ones on the way up, and what happens now at the end. */
import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Icon } from "../icons.tsx";
import {
  loadOlder,
  type Message,
  type OpenSession,
  type Pending,
  session,
  type TextEntry,
  trimOlder,
} from "../state.ts";
import { useActing } from "./acting.ts";
import { Activity } from "./activity.tsx";
import { Announcer } from "./announcer.tsx";
import { Ending } from "./ending.tsx";
import { useFollowing } from "./following.ts";
import { Live } from "./live_line.tsx";
import { memo } from "./memo.tsx";
import { Notice } from "./notice.tsx";
import { Person, type Said } from "./person.tsx";
import { Problem } from "./problem.tsx";
import { Prose } from "./prose.tsx";
import { QuestionRow } from "./question_row.tsx";
import { startingOf } from "./queue_cards.tsx";
import { rowsOf, type TalkRow } from "./rows.ts";

export function Transcript({ here }: { readonly here: OpenSession }): JSX.Element {
  const rows = useRows(here);
  const older = useActing();
  const more = (): void => {
    if (here.hasOlder.value && !here.loadingOlder.value && older.trouble === "") void older.act(loadOlder);
  };
  const { scroller, column, atBottom, jump } = useFollowing({
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
  return (
    <div class="transcript-frame">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <section class="transcript" ref={scroller} tabIndex={0} aria-label="Conversation">
        <div class="column" ref={column}>
          <Above here={here} trouble={older.trouble} onAgain={() => older.act(loadOlder)} />
          {[...rows, ...unplaced].map((row) => (
            <RowView key={row.key} row={row} last={row === lastPerson || row === lastEnding} />
          ))}
          <Marks here={here} />
          <Live here={here} />
        </div>
      </section>
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

/** A message that has no place in the log yet; under its key it becomes the one that has. */
interface UnplacedRow {
  readonly kind: "unplaced";
  readonly key: string;
  readonly said: Said;
}

function unplacedRow(one: Pending | Message): UnplacedRow {
  const pending = "made_ms" in one ? one : null;
  const atMs = "made_ms" in one ? one.made_ms : one.at_ms;
  const key = `person:${one.client_id || ("message_id" in one ? one.message_id : "")}`;
  return { kind: "unplaced", key, said: { text: one.text, parts: one.parts, atMs, entry: null, pending } };
}

interface RowProps {
  readonly row: TalkRow | UnplacedRow;
  readonly last: boolean;
}

const RowView = memo(({ row, last }: RowProps): JSX.Element => {
  const kind = row.kind === "unplaced" ? "person" : row.kind;
  return <div class={`talk-row ${kind}-row`}>{contentOf(row, last)}</div>;
});

function contentOf(row: TalkRow | UnplacedRow, last: boolean): JSX.Element | null {
  switch (row.kind) {
    case "unplaced":
      return <Person said={row.said} last={false} />;
    case "person": {
      const { entry } = row;
      const { text, parts } = entry.message;
      return <Person said={{ text, parts, atMs: entry.at_ms, entry, pending: null }} last={last} />;
    }
    case "text":
      return <Answer entry={row.entry} />;
    case "activity":
      return <Activity work={row.work} />;
    case "question":
      return <QuestionRow entry={row.entry} />;
    case "notice":
      return <Notice entry={row.entry} />;
    case "ending":
      return <Ending entry={row.entry} last={last} />;
  }
}

function Answer({ entry }: { readonly entry: TextEntry }): JSX.Element {
  entry.version.value;
  // what a stop or a crash cut off does not go on either
  const done = entry.done || session.value?.currentRun.value?.run_id !== entry.run_id;
  return (
    <article class="answer" aria-label="Assistant">
      <Prose text={entry.text} done={done} />
    </article>
  );
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
          <span class="spinner" /> Older messages
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

/** What stands under runs that nobody carries on and that have no ending which could say it. */
function Marks({ here }: { readonly here: OpenSession }): JSX.Element | null {
  const runs = here.runs.value;
  const open = Object.entries(here.marks.value).filter(([runId]) => runs.get(runId)?.ending == null);
  if (open.length === 0) return null;
  return (
    <>
      {open.map(([runId, words]) => (
        <div key={runId} class="verdict warn" role="group" aria-label="How the run stands">
          <Icon name="bolt" />
          <p class="verdict-words">
            <strong>{words}</strong>
          </p>
        </div>
      ))}
    </>
  );
}
