/** The rows of a log: only those in sight are in the document, however long the log is. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { bytes, clock, moment } from "../format.ts";
import { Icon } from "../icons.tsx";
import { type LogRow, textOfRow } from "./log_rows.ts";

const ROW_PX = 44;
const SPARE = 6;

interface LogListProps {
  readonly rows: readonly LogRow[];
  readonly beginMs: number;
  readonly opened: ReadonlySet<number>;
  readonly chosen: number;
  readonly onOpen: (seq: number) => void;
  readonly onChoose: (seq: number) => void;
}

export function LogList(props: LogListProps): JSX.Element {
  const { rows, chosen } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const watcher = new ResizeObserver(() => {
      height.value = element.clientHeight;
    });
    watcher.observe(element);
    return () => watcher.disconnect();
  }, [height]);
  // What is chosen comes into sight once, not with each new row.
  useEffect(() => {
    const at = rows.findIndex((row) => row.first.record.seq === chosen);
    const element = scroller.current;
    if (at < 0 || !element) return;
    const offset = at * ROW_PX;
    const hidden = offset < element.scrollTop || offset + ROW_PX > element.scrollTop + element.clientHeight;
    if (hidden) element.scrollTop = offset - element.clientHeight / 3;
  }, [chosen]);

  const from = Math.max(0, Math.floor(top.value / ROW_PX) - SPARE);
  const to = Math.min(rows.length, Math.ceil((top.value + height.value) / ROW_PX) + SPARE);
  return (
    <section
      ref={scroller}
      class="log"
      aria-label="Events"
      onScroll={(event) => {
        top.value = event.currentTarget.scrollTop;
      }}
      onKeyDown={moveInLog}
    >
      <ul class="log-rows" style={{ height: `${rows.length * ROW_PX}px` }}>
        {rows.slice(from, to).map((row, nth) => (
          <LogLine key={`${row.first.record.seq}:${row.depth}`} {...props} row={row} at={from + nth} />
        ))}
      </ul>
    </section>
  );
}

function LogLine(props: LogListProps & { row: LogRow; at: number }): JSX.Element {
  const { row, at, rows, beginMs, opened, chosen, onOpen, onChoose } = props;
  const { record } = row.first;
  const isHead = row.count > 1;
  const isChosen = chosen === record.seq && !isHead;
  return (
    <li
      class={row.depth ? "log-line inner" : "log-line"}
      style={{ top: `${at * ROW_PX}px` }}
      aria-setsize={rows.length}
      aria-posinset={at + 1}
    >
      <button
        type="button"
        class={isChosen ? "log-button chosen" : "log-button"}
        aria-expanded={isHead ? opened.has(record.seq) : undefined}
        aria-pressed={isHead ? undefined : isChosen}
        onClick={() => (isHead ? onOpen(record.seq) : onChoose(isChosen ? 0 : record.seq))}
      >
        <span class="log-place">
          {record.seq}
          <span title={`${moment(record.at_ms)} (${clock(record.at_ms)})`}>
            {since(record.at_ms - beginMs)}
          </span>
        </span>
        <span class="log-what">
          <span class={`log-type ${toneOf(record.type)}`}>
            {record.type}
            {isHead ? (
              <span class="log-count">
                × {row.count}
                <Icon name="chevron" />
              </span>
            ) : null}
          </span>
          <span class="log-text">{textOfRow(row)}</span>
        </span>
        <span class="log-size">{bytes(row.bytes)}</span>
      </button>
    </li>
  );
}

function since(lengthMs: number): string {
  return `+${(Math.max(0, lengthMs) / 1000).toFixed(3)}`;
}

/** A colour for what deserves a look; most of a log does not. */
function toneOf(type: string): string {
  if (/failed|superseded|expired|withdrawn/.test(type)) return "bad";
  if (/gated|switched|resumed|stop\.|rewound|compacted/.test(type)) return "odd";
  if (/approval|question|grant|message\./.test(type)) return "human";
  return /tool\./.test(type) ? "tools" : "";
}

function moveInLog(event: KeyboardEvent): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const list = event.currentTarget as HTMLElement;
  const buttons = [...list.querySelectorAll<HTMLElement>(".log-button")];
  const next = buttons[buttons.indexOf(document.activeElement as HTMLElement) + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
}
