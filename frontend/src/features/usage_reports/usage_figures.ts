/** The figures of the usage panel: periods, bars, and the file that people download; pure. */

import type { BudgetShown, UsageListed, UsageSummary } from "../../bodies.ts";
import { count, money } from "../../format.ts";

export type By = "day" | "target" | "session" | "key";
export type Period = "today" | "week" | "month" | "custom";
export type Measure = "cost" | "tokens";

const DAY_MS = 86_400_000;
const DAYS: Readonly<Record<Exclude<Period, "custom">, number>> = { today: 1, week: 7, month: 30 };

export interface Days {
  readonly from: string;
  readonly to: string;
}

/** A moment's day in UTC, as the server counts days. */
export function dayOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10);
}

export function daysOf(period: Period, custom: Days, nowMs: number): Days {
  if (period === "custom") return custom;
  return { from: dayOf(nowMs - (DAYS[period] - 1) * DAY_MS), to: dayOf(nowMs) };
}

/** Why the days can't be asked for; "" if they can. */
export function troubleWith({ from, to }: Days): string {
  if (!from || !to) return "Choose a first and a last day.";
  return from > to ? "The first day is after the last day." : "";
}

export function tokensOf(row: Figures): number {
  return row.input_tokens + row.output_tokens;
}

type Figures = Pick<UsageListed, "input_tokens" | "output_tokens" | "cost_usd">;

export function measured(row: Figures, measure: Measure): number {
  return measure === "cost" ? (row.cost_usd ?? 0) : tokensOf(row);
}

export function measureWords(value: number, measure: Measure): string {
  return measure === "cost" ? money(value) : `${count(value)} tokens`;
}

/** What a cell says about money: an unknown price is not free. */
export function costWords(row: Pick<UsageListed, "cost_usd" | "unpriced_calls">): string {
  const known = row.cost_usd ?? 0;
  if (row.unpriced_calls === 0) return money(known);
  return known > 0 ? `≥ ${money(known)}` : "unknown";
}

export interface Bar {
  readonly key: string;
  readonly label: string;
  readonly value: number;
  readonly words: string;
}

/** The server gives no more days than this, and more rows than this have no room. */
const DAYS_MAX = 366;
const ROWS_MAX = 8;

/** A bar for each day of the period, also for days without use; for other groups the largest few. */
export function barsOf(report: UsageSummary, measure: Measure): Bar[] {
  if (report.by !== "day") {
    return sorted(report, measure)
      .slice(0, ROWS_MAX)
      .map((row) => barOf(row, nameOf(row), measure));
  }
  const known = new Map(report.rows.map((row) => [row.key, row]));
  const first = Date.parse(`${report.from}T00:00:00Z`);
  const last = Date.parse(`${report.to}T00:00:00Z`);
  const length = Math.min(DAYS_MAX, Math.round((last - first) / DAY_MS) + 1);
  return Array.from({ length }, (_, nth) => {
    const day = dayOf(first + nth * DAY_MS);
    const row = known.get(day);
    return row ? barOf(row, day, measure) : { key: day, label: day, value: 0, words: "nothing used" };
  });
}

function barOf(row: UsageListed, label: string, measure: Measure): Bar {
  const value = measured(row, measure);
  const words = measure === "cost" ? costWords(row) : measureWords(value, measure);
  return { key: row.key, label, value, words };
}

/** Days in order, everything else by size. */
export function sorted(report: UsageSummary, measure: Measure): readonly UsageListed[] {
  if (report.by === "day") return report.rows.toSorted((a, b) => b.key.localeCompare(a.key));
  return report.rows.toSorted((a, b) => measured(b, measure) - measured(a, measure));
}

/** The server has a name for everything; texts of people may still be empty. */
export function nameOf({ key, label }: Pick<UsageListed, "key" | "label">): string {
  return label || key || "unknown";
}

/** How full a budget is, by the limit that is nearer: 0 to 1. */
export function fullness(budget: BudgetShown): number {
  const { limit_usd: usd, limit_tokens: tokens, used_usd, used_tokens } = budget;
  return Math.max(usd === null ? 0 : share(used_usd, usd), tokens === null ? 0 : share(used_tokens, tokens));
}

function share(used: number, limit: number): number {
  return limit > 0 ? Math.min(1, used / limit) : 1;
}

/** What is left of a budget, in words. */
export function leftOf(budget: BudgetShown): string {
  const parts = [
    budget.limit_usd === null
      ? ""
      : `${money(Math.max(0, budget.limit_usd - budget.used_usd))} of ${money(budget.limit_usd)}`,
    budget.limit_tokens === null
      ? ""
      : `${count(Math.max(0, budget.limit_tokens - budget.used_tokens))} of ${count(budget.limit_tokens)} tokens`,
  ];
  return `${parts.filter(Boolean).join(", ")} left`;
}

const COLUMNS = [
  "runs",
  "relayed_calls",
  "input_tokens",
  "cached_tokens",
  "output_tokens",
  "cost_usd",
  "unpriced_calls",
] as const satisfies readonly (keyof UsageListed)[];

/** The report as a file for a spreadsheet: every row, with the figures as the server gave them. */
export function csvOf(report: UsageSummary): string {
  const head = [report.by, "label", ...COLUMNS];
  const rows = report.rows.map((row) => [row.key, row.label, ...COLUMNS.map((name) => row[name] ?? "")]);
  return [head, ...rows].map((cells) => `${cells.map(cell).join(",")}\r\n`).join("");
}

/** Quoted where it must be; a text that a spreadsheet would take for a formula begins with an apostrophe. */
function cell(value: string | number): string {
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
