/** The rows of the timeline: every event of the log, deltas that follow each other under one row; pure. */
import type { LogRecord } from "../events.ts";
import { textOf } from "../timeline.ts";

/** An event with the bytes that it takes in the log. */
export interface Logged {
  readonly record: LogRecord;
  readonly bytes: number;
}

/** A row: an event, or the head of several of one type in a row, which can be opened. */
export interface LogRow {
  readonly first: Logged;
  readonly count: number;
  readonly bytes: number;
  readonly depth: 0 | 1;
  /** Its events: one, or as many as it heads. */
  readonly group: readonly Logged[];
}

const GATHERED: ReadonlySet<string> = new Set(["text.delta", "reasoning.delta", "tool.output"]);
const TEXT_CHARS_MAX = 160;

/** A page of the log with each event beside its size. */
export function loggedPage(page: { events: readonly LogRecord[]; bytes: readonly number[] }): Logged[] {
  return page.events.map((record, nth) => ({ record, bytes: page.bytes[nth] ?? 0 }));
}

/** Those whose type or text holds the words; without words, all. */
export function filtered(log: readonly Logged[], words: string): readonly Logged[] {
  const wanted = words.trim().toLowerCase();
  if (!wanted) return log;
  return log.filter(
    ({ record }) =>
      record.type.includes(wanted) ||
      String(record.seq) === wanted ||
      textOf(record).toLowerCase().includes(wanted),
  );
}

/** The rows to show; `opened` holds the seqs of heads that stand open. */
export function rowsOf(log: readonly Logged[], opened: ReadonlySet<number>): LogRow[] {
  const rows: LogRow[] = [];
  for (let at = 0; at < log.length; ) {
    const first = log[at];
    if (!first) break;
    const end = endOfGroup(log, at);
    const group = log.slice(at, end);
    if (group.length === 1) rows.push(single(first, 0));
    else rows.push(headOf(group, first));
    if (group.length > 1 && opened.has(first.record.seq)) rows.push(...group.map((one) => single(one, 1)));
    at = end;
  }
  return rows;
}

function endOfGroup(log: readonly Logged[], at: number): number {
  const type = log[at]?.record.type ?? "";
  let end = at + 1;
  while (GATHERED.has(type) && log[end]?.record.type === type) end += 1;
  return end;
}

function single(one: Logged, depth: 0 | 1): LogRow {
  return { first: one, count: 1, bytes: one.bytes, depth, group: [one] };
}

function headOf(group: readonly Logged[], first: Logged): LogRow {
  const bytes = group.reduce((sum, one) => sum + one.bytes, 0);
  return { first, count: group.length, bytes, depth: 0, group };
}

/** What the row says, in one line; asked for rows in sight alone. */
export function textOfRow({ first, count, group }: LogRow): string {
  if (count === 1) return textOf(first.record);
  let text = "";
  for (const { record } of group) {
    if (text.length >= TEXT_CHARS_MAX) break;
    text += "text" in record ? record.text : "";
  }
  return text.slice(0, TEXT_CHARS_MAX);
}
