/** The bars of the usage panel: days side by side, everything else below each other. The table has the same figures. */
import type { JSX } from "preact";
import { plural } from "../../format.ts";
import { harmless } from "../../markdown/safe.ts";
import { type Bar, type Measure, measureWords } from "./usage_figures.ts";

const HEIGHT = 100;
const STEP = 10;
const GAP = 2;

interface ChartProps {
  readonly bars: readonly Bar[];
  readonly measure: Measure;
  readonly way: "days" | "rows";
}

export function UsageChart({ bars, measure, way }: ChartProps): JSX.Element | null {
  const most = Math.max(0, ...bars.map((bar) => bar.value));
  if (most === 0) return null;
  return way === "days" ? (
    <Days bars={bars} measure={measure} most={most} />
  ) : (
    <Rows bars={bars} most={most} />
  );
}

interface BarsProps extends Omit<ChartProps, "way"> {
  readonly most: number;
}

function Days({ bars, measure, most }: BarsProps): JSX.Element {
  const top = bars.find((bar) => bar.value === most);
  const words = `${plural(bars.length, "day")}; peak ${measureWords(most, measure)} on ${top?.label}`;
  return (
    <figure class="usage-days">
      <svg
        viewBox={`0 0 ${bars.length * STEP} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={words}
      >
        {bars.map((bar, nth) => {
          const height = bar.value > 0 ? Math.max(1, (HEIGHT * bar.value) / most) : 0;
          return (
            <g key={bar.key}>
              <title>{`${bar.label}: ${bar.words}`}</title>
              {/* the whole height is there to point at */}
              <rect class="ground" x={nth * STEP} y={0} width={STEP} height={HEIGHT} />
              <rect x={nth * STEP + GAP / 2} y={HEIGHT - height} width={STEP - GAP} height={height} />
            </g>
          );
        })}
      </svg>
      <figcaption class="fine muted">
        <span>{bars[0]?.label}</span>
        <span>{`peak: ${measureWords(most, measure)}`}</span>
        <span>{bars.at(-1)?.label}</span>
      </figcaption>
    </figure>
  );
}

function Rows({ bars, most }: Omit<BarsProps, "measure">): JSX.Element {
  return (
    <ul class="usage-rows" aria-label="The largest">
      {bars.map((bar) => (
        <li key={bar.key}>
          <span class="usage-name">{harmless(bar.label)}</span>
          <svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
            <rect class="ground" width={100} height={1} />
            <rect width={(100 * bar.value) / most} height={1} />
          </svg>
          <span class="usage-value">{bar.words}</span>
        </li>
      ))}
    </ul>
  );
}
