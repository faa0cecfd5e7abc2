/** The rows of a transcript: entries as a reader sees them, with the work between two texts in one row; pure. */
import type { Hit } from "../state/page_state.ts";
import type {
  AskEntry,
  EndingEntry,
  Entry,
  NoticeEntry,
  PersonEntry,
  TextEntry,
  ThinkingEntry,
  ToolEntry,
} from "../view/entries.ts";

export type Work = ThinkingEntry | ToolEntry | AskEntry;

export type TalkRow =
  | { readonly kind: "person"; readonly key: string; readonly entry: PersonEntry }
  | { readonly kind: "text"; readonly key: string; readonly entry: TextEntry }
  | { readonly kind: "activity"; readonly key: string; readonly work: readonly Work[] }
  | { readonly kind: "ask"; readonly key: string; readonly entry: AskEntry }
  | { readonly kind: "notice"; readonly key: string; readonly entry: NoticeEntry }
  | { readonly kind: "ending"; readonly key: string; readonly entry: EndingEntry };

/** The rows of the entries; a row whose entries are the same as `before` is the same object. */
export function rowsOf(entries: readonly Entry[], before: readonly TalkRow[]): readonly TalkRow[] {
  const known = new Map(before.map((row) => [row.key, row]));
  const rows: TalkRow[] = [];
  let work: Work[] = [];
  const flush = (): void => {
    const first = work[0];
    if (first !== undefined) rows.push(kept(known, { kind: "activity", key: `work:${first.key}`, work }));
    work = [];
  };
  const questions = new Set(entries.map((entry) => (isQuestion(entry) ? entry.tool_call_id : "")));
  for (const entry of entries) {
    if (isQuestion(entry)) {
      flush();
      rows.push(kept(known, { kind: "ask", key: entry.key, entry }));
      continue;
    }
    // the question itself says all that its tool call would
    if (entry.kind === "tool" && questions.has(entry.tool_call_id)) continue;
    if (entry.kind === "thinking" || entry.kind === "tool" || entry.kind === "ask") {
      if (work[0] !== undefined && work[0].run_id !== entry.run_id) flush();
      work.push(entry);
      continue;
    }
    // a message that was removed before its run began leaves nothing to show
    if (entry.kind === "ending" && entry.cause === "removed") continue;
    flush();
    rows.push(kept(known, rowOf(entry)));
  }
  flush();
  return rows.length === before.length && rows.every((row, at) => row === before[at]) ? before : rows;
}

function isQuestion(entry: Entry): entry is AskEntry & { readonly ask: "question" } {
  return entry.kind === "ask" && entry.ask === "question";
}

function rowOf(entry: Exclude<Entry, Work>): TalkRow {
  const { key } = entry;
  switch (entry.kind) {
    case "person":
      return { kind: "person", key, entry };
    case "text":
      return { kind: "text", key, entry };
    case "notice":
      return { kind: "notice", key, entry };
    case "ending":
      return { kind: "ending", key, entry };
  }
}

function kept(known: ReadonlyMap<string, TalkRow>, row: TalkRow): TalkRow {
  const earlier = known.get(row.key);
  if (earlier === undefined || earlier.kind !== row.kind) return row;
  if (row.kind !== "activity" || earlier.kind !== "activity")
    return row.kind !== "activity" && earlier.kind !== "activity" && earlier.entry === row.entry
      ? earlier
      : row;
  const same =
    earlier.work.length === row.work.length && row.work.every((one, at) => one === earlier.work[at]);
  return same ? earlier : row;
}

/** How long the work took: what its tools took, or the stretch of it where they ran side by side.
 *
 * The time in which a person was asked is not in it, and a page that was loaded later says the same.
 */
export function spentMs(work: readonly Work[], nowMs: number): number {
  let begin = Number.POSITIVE_INFINITY;
  let end = 0;
  let sum = 0;
  for (const one of work) {
    const took = tookMs(one, nowMs);
    sum += took;
    begin = Math.min(begin, one.at_ms);
    end = Math.max(end, beganMs(one) + took);
  }
  return Math.max(0, Math.min(sum, end - begin));
}

function tookMs(one: Work, nowMs: number): number {
  if (one.kind === "tool") {
    if (one.state === "ended") return one.ms;
    return one.state === "started" ? Math.max(0, nowMs - beganMs(one)) : 0;
  }
  return one.kind === "thinking" && !one.done ? Math.max(0, nowMs - one.at_ms) : 0;
}

function beganMs(one: Work): number {
  return one.kind === "tool" ? Math.max(one.at_ms, one.started_ms) : one.at_ms;
}

/** Whether something of the work is under way. */
export function isBusy(work: readonly Work[]): boolean {
  return work.some((one) =>
    one.kind === "tool" ? one.state !== "ended" : one.kind === "thinking" && !one.done,
  );
}

/** The clean answer of a run: the text since its last tool or, if there is none, the last text before. */
export function answerOf(entries: readonly Entry[], runId: string): string {
  const texts: string[] = [];
  for (const entry of entries.toReversed()) {
    if (entry.run_id !== runId) continue;
    if (entry.kind === "text" && entry.text !== "") texts.unshift(entry.text);
    else if (entry.kind === "tool" && texts.length > 0) break;
  }
  return texts.join("");
}

/** The row that holds a hit: the message or question of that event, or the text that was complete with it. */
export function rowAt(rows: readonly TalkRow[], { seq, passage }: Hit): TalkRow | undefined {
  const own = rows.find(
    (row) =>
      (row.kind === "person" && row.entry.message.seq === seq) ||
      (row.kind === "ask" && row.entry.seq === seq),
  );
  if (own !== undefined) return own;
  const words = passage.replace(/^…|…$/g, "").trim();
  const texts = rows.filter((row) => row.kind === "text" && row.entry.seq <= seq);
  // a message that was edited while it waited is placed where its run took it up
  const waited = rows.filter(
    (row) => row.kind === "person" && row.entry.message.seq < seq && seq < row.entry.seq,
  );
  // what is in none of them was rewritten since, so that no other row may stand for it
  return [...waited, ...texts].findLast((row) => textOf(row).includes(words));
}

function textOf(row: TalkRow): string {
  if (row.kind === "person") return row.entry.message.text;
  return row.kind === "text" ? row.entry.text : "";
}
