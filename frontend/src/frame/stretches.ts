/** The picture of a run's time: stretches in their order, the moments worth a mark, and the sums; pure. */
import type { AnyEvent, LogRecord } from "../events.ts";
import { Spending, type Spent, STALLS } from "../timeline.ts";

/** A stretch of time; both ends in milliseconds since the first event. */
export interface Stretch {
  readonly spent: Spent;
  readonly fromMs: number;
  readonly toMs: number;
}

export type MarkKind = "stall" | "retry" | "switch" | "gate" | "crash" | "ask" | "stop" | "fail";

export interface TimeMark {
  readonly kind: MarkKind;
  readonly seq: number;
  readonly atMs: number;
}

export interface Picture {
  readonly totalMs: number;
  readonly stretches: readonly Stretch[];
  readonly marks: readonly TimeMark[];
  /** What took longest comes first. */
  readonly sums: readonly (readonly [Spent, number])[];
}

export function pictureOf(records: readonly LogRecord[]): Picture {
  const stretches: Stretch[] = [];
  const marks: TimeMark[] = [];
  const sums = new Map<Spent, number>();
  const beginMs = records[0]?.at_ms ?? 0;
  const spending = new Spending();
  let toMs = 0;
  for (const record of records) {
    // A clock that was set back makes no time disappear that was shown already.
    const fromMs = toMs;
    toMs = Math.max(toMs, record.at_ms - beginMs);
    const kind = spending.until(record);
    if (toMs > fromMs) {
      sums.set(kind, (sums.get(kind) ?? 0) + toMs - fromMs);
      join(stretches, { spent: kind, fromMs, toMs });
    }
    const mark = markOf(record);
    if (mark) marks.push({ kind: mark, seq: record.seq, atMs: toMs });
  }
  return { totalMs: toMs, stretches, marks, sums: [...sums].sort(([, a], [, b]) => b - a) };
}

function join(stretches: Stretch[], next: Stretch): void {
  const last = stretches.at(-1);
  if (last?.spent === next.spent) stretches[stretches.length - 1] = { ...last, toMs: next.toMs };
  else stretches.push(next);
}

function markOf(event: AnyEvent): MarkKind | null {
  switch (event.type) {
    case "attempt.failed":
      // A stop ends the attempt, too; that is no stumble.
      if (event.failure.kind === "cancelled") return null;
      return STALLS.has(event.failure.kind) ? "stall" : "retry";
    case "target.switched":
      return "switch";
    case "call.gated":
      return "gate";
    case "run.resumed":
      return "crash";
    case "approval.asked":
    case "question.asked":
      return "ask";
    case "stop.requested":
      return "stop";
    case "run.ended":
      return event.outcome === "failed" || event.outcome === "interrupted" ? "fail" : null;
    default:
      return null;
  }
}

/** As many stretches as can be told apart: narrow ones in a row are drawn as the kind that most of them are. */
export function drawn(picture: Picture, mostStretches: number): Stretch[] {
  const leastMs = picture.totalMs / mostStretches;
  const result: Stretch[] = [];
  let narrow: Stretch[] = [];
  const gather = (): void => {
    const [first, last] = [narrow[0], narrow.at(-1)];
    if (first && last) join(result, { spent: most(narrow), fromMs: first.fromMs, toMs: last.toMs });
    narrow = [];
  };
  for (const one of picture.stretches) {
    if (one.toMs - one.fromMs >= leastMs) {
      gather();
      join(result, one);
      continue;
    }
    narrow.push(one);
    if (one.toMs - (narrow[0]?.fromMs ?? 0) >= leastMs) gather();
  }
  gather();
  return result;
}

function most(stretches: readonly Stretch[]): Spent {
  const sums = new Map<Spent, number>();
  for (const one of stretches) sums.set(one.spent, (sums.get(one.spent) ?? 0) + one.toMs - one.fromMs);
  return [...sums].reduce((best, next) => (next[1] > best[1] ? next : best), ["between", 0] as const)[0];
}

/** Where the marks stand, in percent from the left: at their time, but none on top of another. */
export function spread(marks: readonly TimeMark[], totalMs: number, leastPercent: number): number[] {
  const least = Math.min(leastPercent, 100 / Math.max(1, marks.length - 1));
  const places: number[] = [];
  for (const { atMs } of marks) {
    const wanted = totalMs > 0 ? (100 * atMs) / totalMs : 0;
    places.push(Math.max(wanted, (places.at(-1) ?? -least) + least));
  }
  // What was pushed past the end goes back, and pushes those before it.
  let most = 100;
  for (let at = places.length - 1; at >= 0; at -= 1) {
    places[at] = Math.min(places[at] ?? 0, most);
    most = (places[at] ?? 0) - least;
  }
  return places;
}

/** Round numbers of milliseconds for the axis, a few of them. */
export function ticksOf(totalMs: number): number[] {
  if (totalMs <= 0) return [];
  const steps = [1, 2, 5].flatMap((step) => [1, 10, 100, 1e3, 1e4].map((scale) => step * scale));
  const minutes = [1, 2, 5, 10, 30, 60, 120, 360, 720, 1440].map((count) => count * 60_000);
  const step = [...steps.sort((a, b) => a - b), ...minutes].find((size) => totalMs / size <= 5) ?? totalMs;
  const ticks: number[] = [];
  for (let at = 0; at <= totalMs * 0.9 && ticks.length < 6; at += step) ticks.push(at);
  return ticks;
}
