/** The timeline of a run: where its seconds went, and under that the log itself. */
import type { JSX } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { bytes, duration, plural } from "../format.ts";
import { Icon } from "../icons.tsx";
import { type RunView, session } from "../state.ts";
import { CopyButton } from "../talk/copy_button.tsx";
import { type Scope, useFollowedLog } from "./followed_log.ts";
import { LogList } from "./log_list.tsx";
import { filtered, type Logged, rowsOf } from "./log_rows.ts";
import { pictureOf } from "./stretches.ts";
import { TimelinePicture } from "./timeline_picture.tsx";
import { TIMELINE_SWITCH, timelineOpen } from "./ui.ts";

const WHOLE = "whole";
/** Not a choice of one run: whichever is the newest. */
const NEWEST = "";

/** Puts the panel away, and the focus back on its switch. */
function close(): void {
  timelineOpen.value = false;
  document.getElementById(TIMELINE_SWITCH)?.focus();
}

function onKeyDown(event: KeyboardEvent): void {
  if (event.key !== "Escape") return;
  event.preventDefault();
  close();
}

export function TimelinePanel(): JSX.Element {
  const runs = [...(session.value?.runs.value.values() ?? [])].filter((run) => run.first_seq > 0);
  const [picked, setPicked] = useState(NEWEST);
  const newest = runs.at(-1)?.run_id ?? "";
  const known = picked === WHOLE || runs.some((run) => run.run_id === picked);
  const choice = known ? picked : newest;
  const run = runs.find((one) => one.run_id === choice);
  const scope = {
    sessionId: session.value?.id ?? "",
    runId: run?.run_id ?? "",
    firstSeq: run?.first_seq ?? 0,
  };
  const away = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    // where it lies over the chat, the focus must not stay below it
    if (matchMedia("(max-width: 1180px)").matches) away.current?.focus();
  }, []);
  return (
    <aside class="panel" aria-label="Timeline" onKeyDown={onKeyDown}>
      <header class="panel-head">
        <h2>Timeline</h2>
        <select
          class="field run-choice"
          aria-label="Timeline scope"
          value={choice}
          onChange={({ currentTarget: { value } }) => setPicked(value === newest ? NEWEST : value)}
        >
          {runs.toReversed().map((one, nth) => (
            <option key={one.run_id} value={one.run_id}>
              {runWords(one, runs.length - nth)}
            </option>
          ))}
          <option value={WHOLE}>Whole chat</option>
        </select>
        <span class="spread" />
        <button ref={away} type="button" class="icon-button" aria-label="Close timeline" onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      {choice ? (
        <LogTimeline key={`${scope.sessionId} ${choice}`} scope={scope} />
      ) : (
        <p class="panel-note">No runs yet. Each step of a run appears here with its time and size.</p>
      )}
    </aside>
  );
}

function runWords(run: RunView, nth: number): string {
  return `Run ${nth} · ${run.ending?.outcome ?? run.phase}`;
}

function LogTimeline({ scope }: { scope: Scope }): JSX.Element {
  const { log, busy, trouble, before, older } = useFollowedLog(scope);
  const [words, setWords] = useState("");
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  const [chosen, setChosen] = useState(0);
  const picture = useMemo(() => pictureOf(log.map((one) => one.record)), [log]);
  const seen = useMemo(() => filtered(log, words), [log, words]);
  const rows = useMemo(() => rowsOf(seen, opened), [seen, opened]);
  const size = useMemo(() => seen.reduce((sum, one) => sum + one.bytes, 0), [seen]);
  const open = (seq: number): void => setOpened((seqs) => toggled(seqs, seq));
  const mark = (seq: number): void => {
    setWords("");
    setChosen(seq);
  };
  const record = log.find((one) => one.record.seq === chosen);
  return (
    <>
      {trouble ? (
        <p class="problem panel-note" role="alert">
          {trouble}
        </p>
      ) : null}
      {busy ? (
        <p class="panel-note">
          <span class="spinner" /> Loading events
        </p>
      ) : (
        <>
          <p class="panel-sum">
            <strong>{duration(picture.totalMs)}</strong>
            <span class="muted">
              {" "}
              · {plural(seen.length, "event")} · {bytes(size)}
            </span>
          </p>
          <TimelinePicture picture={picture} onMark={mark} />
          <div class="panel-tools">
            <label class="filter">
              <Icon name="filter" />
              <input
                class="field"
                type="search"
                aria-label="Filter events"
                placeholder="Filter events"
                value={words}
                onInput={(event) => setWords(event.currentTarget.value)}
              />
            </label>
            <CopyButton what="JSON" words="Copy JSON" text={() => asJson(seen)} />
          </div>
          {before > 0 ? (
            <button type="button" class="button quiet older" onClick={older}>
              Earlier events, up to {before}
            </button>
          ) : null}
          {rows.length === 0 ? <p class="panel-note">No events match.</p> : null}
          <LogList
            rows={rows}
            beginMs={log[0]?.record.at_ms ?? 0}
            opened={opened}
            chosen={chosen}
            onOpen={open}
            onChoose={setChosen}
          />
          {record ? <Detail one={record} onClose={() => setChosen(0)} /> : null}
        </>
      )}
    </>
  );
}

function toggled(seqs: ReadonlySet<number>, seq: number): ReadonlySet<number> {
  return seqs.has(seq) ? new Set([...seqs].filter((other) => other !== seq)) : new Set([...seqs, seq]);
}

function asJson(log: readonly Logged[]): string {
  return `[\n${log.map((one) => JSON.stringify(one.record)).join(",\n")}\n]`;
}

function Detail({ one, onClose }: { one: Logged; onClose: () => void }): JSX.Element {
  return (
    <section class="detail" aria-label={`Event ${one.record.seq}`}>
      <header class="detail-head">
        <strong>
          {one.record.seq} · {one.record.type}
        </strong>
        <span class="spread" />
        <CopyButton what="event" words="Copy" text={() => JSON.stringify(one.record, null, 2)} />
        <button type="button" class="icon-button" aria-label="Close event" onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls must be reachable by keyboard */}
      <pre tabIndex={0}>{JSON.stringify(one.record, null, 2)}</pre>
    </section>
  );
}
