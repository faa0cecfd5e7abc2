/** Where a run's seconds went, as a strip in the order of time with marks, and as sums. */
import type { JSX } from "preact";
import { duration, percent } from "../format.ts";
import { Icon, type IconName } from "../icons.tsx";
import { type Spent, WORDS } from "../timeline.ts";
import { drawn, type MarkKind, type Picture, spread, type TimeMark, ticksOf } from "./stretches.ts";

const STRETCHES_MAX = 240;
const MARKS_MAX = 60;
/** How wide a mark is, of the width of the strip. */
const MARK_PERCENT = 6;

const MARKS: Readonly<Record<MarkKind, readonly [IconName, string]>> = {
  stall: ["pause", "Stalled; restarted by the watchdog"],
  retry: ["retry", "Attempt failed"],
  switch: ["swap", "Switched to another model"],
  gate: ["clock", "Paused by the provider"],
  crash: ["bolt", "Resumed after downtime"],
  ask: ["hand", "Waited for a person"],
  stop: ["stop", "Stop requested"],
  fail: ["warning", "Failed"],
};

interface PictureProps {
  readonly picture: Picture;
  readonly onMark: (seq: number) => void;
}

export function TimelinePicture({ picture, onMark }: PictureProps): JSX.Element {
  const { totalMs, sums } = picture;
  const largeCount = sums.filter(([, lengthMs]) => lengthMs >= totalMs / 100).length;
  // A single small one takes no more room by itself than as the rest.
  const large = sums.slice(0, sums.length - largeCount === 1 ? sums.length : largeCount);
  const small = sums.slice(large.length);
  return (
    <figure class="picture">
      <Marks picture={picture} onMark={onMark} />
      <Strip picture={picture} />
      <Axis totalMs={totalMs} />
      <figcaption class="unseen">How this run spent {duration(totalMs)}</figcaption>
      <ul class="sums">
        {large.map(([kind, lengthMs]) => (
          <Sum key={kind} kind={kind} words={WORDS[kind]} lengthMs={lengthMs} totalMs={totalMs} />
        ))}
        {small.length > 0 ? (
          <Sum
            kind="between"
            words={small.map(([kind]) => WORDS[kind]).join(", ")}
            lengthMs={small.reduce((sum, [, lengthMs]) => sum + lengthMs, 0)}
            totalMs={totalMs}
          />
        ) : null}
      </ul>
    </figure>
  );
}

function colourOf(kind: Spent): string {
  return `var(--spent-${kind})`;
}

interface SumProps {
  readonly kind: Spent;
  readonly words: string;
  readonly lengthMs: number;
  readonly totalMs: number;
}

function Sum({ kind, words, lengthMs, totalMs }: SumProps): JSX.Element {
  return (
    <li class="sum">
      <span class="swatch" style={{ background: colourOf(kind) }} aria-hidden="true" />
      <span class="sum-words" title={words}>
        {words}
      </span>
      <span class="sum-share">{percent(lengthMs, totalMs)}</span>
      <span class="sum-length">{duration(lengthMs)}</span>
    </li>
  );
}

function Strip({ picture }: { picture: Picture }): JSX.Element {
  const scale = picture.totalMs > 0 ? 1000 / picture.totalMs : 0;
  return (
    <svg class="strip" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">
      {drawn(picture, STRETCHES_MAX).map((one) => (
        <rect
          key={one.fromMs}
          fill={colourOf(one.spent)}
          x={one.fromMs * scale}
          width={Math.max(1, (one.toMs - one.fromMs) * scale)}
          height="10"
        >
          <title>{`${WORDS[one.spent]}: ${duration(one.toMs - one.fromMs)}`}</title>
        </rect>
      ))}
    </svg>
  );
}

function Marks({ picture, onMark }: PictureProps): JSX.Element | null {
  if (picture.marks.length === 0) return null;
  const marks = picture.marks.slice(0, MARKS_MAX);
  const places = spread(marks, picture.totalMs, MARK_PERCENT);
  return (
    <div class="marks">
      {marks.map((mark, nth) => (
        <MarkButton key={mark.seq} mark={mark} place={places[nth] ?? 0} onMark={onMark} />
      ))}
    </div>
  );
}

interface MarkProps {
  readonly mark: TimeMark;
  readonly place: number;
  readonly onMark: (seq: number) => void;
}

function MarkButton({ mark, place, onMark }: MarkProps): JSX.Element {
  const [icon, words] = MARKS[mark.kind];
  const label = `${words}, at ${duration(mark.atMs)}`;
  return (
    <button
      type="button"
      class={`time-mark mark-${mark.kind}`}
      style={{ left: `${place}%` }}
      aria-label={label}
      title={label}
      onClick={() => onMark(mark.seq)}
    >
      <Icon name={icon} />
    </button>
  );
}

function Axis({ totalMs }: { totalMs: number }): JSX.Element {
  return (
    <div class="axis" aria-hidden="true">
      {ticksOf(totalMs).map((atMs) => (
        <span key={atMs} style={{ left: `${(100 * atMs) / totalMs}%` }}>
          {atMs === 0 ? "0" : duration(atMs)}
        </span>
      ))}
    </div>
  );
}
