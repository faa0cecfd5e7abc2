/** How times, lengths, sizes and money are written for people; pure. */

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** When something happened, in as few letters as a list has room for. */
export function ago(atMs: number, nowMs: number): string {
  const passedMs = Math.max(0, nowMs - atMs);
  if (passedMs < MINUTE_MS) return "now";
  if (passedMs < HOUR_MS) return `${Math.floor(passedMs / MINUTE_MS)} min`;
  if (passedMs < DAY_MS) return `${Math.floor(passedMs / HOUR_MS)} h`;
  if (passedMs < 7 * DAY_MS) return `${Math.floor(passedMs / DAY_MS)} d`;
  const at = new Date(atMs);
  const sameYear = at.getFullYear() === new Date(nowMs).getFullYear();
  return at.toLocaleDateString(undefined, {
    day: "numeric",
    month: "short",
    ...(sameYear ? {} : { year: "numeric" }),
  });
}

/** The moment in full, for a title or a tooltip. */
export function moment(atMs: number): string {
  return new Date(atMs).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** The moment in a time zone, which it names; without one, or with one the browser doesn't know, in the browser's. */
export function momentIn(atMs: number, zone = ""): string {
  if (zone === "") return moment(atMs);
  const options = { dateStyle: "medium", timeStyle: "medium", timeZone: zone } as const;
  try {
    return `${new Date(atMs).toLocaleString(undefined, options)} (${zone})`;
  } catch (error) {
    if (error instanceof RangeError) return moment(atMs);
    throw error;
  }
}

/** The time of day with milliseconds, as logs write it. */
export function clock(atMs: number): string {
  const at = new Date(atMs);
  const two = (value: number): string => String(value).padStart(2, "0");
  const millis = String(at.getMilliseconds()).padStart(3, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${millis}`;
}

/** The time of day as people say it. */
export function timeOfDay(atMs: number): string {
  return new Date(atMs).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
}

/** How long something took, with two units at most. */
export function duration(lengthMs: number): string {
  if (lengthMs < 1) return "0 ms";
  if (lengthMs < 1000) return `${Math.round(lengthMs)} ms`;
  if (lengthMs < 9_950) return `${(lengthMs / 1000).toFixed(1)} s`;
  const seconds = Math.round(lengthMs / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return pair(seconds, 60, "min", "s");
  if (seconds < 86_400) return pair(Math.round(seconds / 60), 60, "h", "min");
  return pair(Math.round(seconds / 3600), 24, "d", "h");
}

function pair(count: number, per: number, large: string, small: string): string {
  const rest = count % per;
  return rest ? `${Math.floor(count / per)} ${large} ${rest} ${small}` : `${count / per} ${large}`;
}

/** A countdown: minutes and seconds, never below zero. */
export function countdown(leftMs: number): string {
  const seconds = Math.max(0, Math.ceil(leftMs / 1000));
  if (seconds >= 3600) return duration(seconds * 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

/** A size in the unit that leaves the fewest digits. */
export function bytes(count: number): string {
  if (count < 1000) return `${count} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let value = count;
  let unit = "B";
  for (const next of units) {
    if (value < 999.5) break;
    value /= 1000;
    unit = next;
  }
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} ${unit}`;
}

/** A count of tokens or events: 940, 12.3 k, 1.2 M. */
export function count(value: number): string {
  if (value < 10_000) return grouped(value);
  if (value < 999_500) return `${value < 99_950 ? (value / 1000).toFixed(1) : Math.round(value / 1000)} k`;
  return `${(value / 1_000_000).toFixed(1)} M`;
}

/** A whole number with thin spaces between its thousands. */
export function grouped(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** Money: cents and up with two digits, less with as many as it takes to show something. */
export function money(usd: number): string {
  if (usd <= 0) return "$0.00";
  if (usd < 0.0001) return "< $0.0001";
  if (usd < 0.01) return `$${usd.toFixed(4)}`;
  return usd < 1000 ? `$${usd.toFixed(2)}` : `$${grouped(usd)}`;
}

/** A share of a whole in percent; something that is there is never shown as nothing. */
export function percent(part: number, whole: number): string {
  if (whole <= 0 || part <= 0) return "0 %";
  const value = (100 * part) / whole;
  return value < 1 ? "< 1 %" : `${Math.round(value)} %`;
}

/** The word in the number that the count asks for. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${grouped(value)} ${value === 1 ? one : many}`;
}

export type DayGroup = "Today" | "Yesterday" | "Last 7 days" | "Older";

/** The group of the list that a moment belongs to, by the calendar of the person who looks. */
export function dayGroup(atMs: number, nowMs: number): DayGroup {
  const today = new Date(nowMs);
  const midnight = (daysBack: number): number =>
    new Date(today.getFullYear(), today.getMonth(), today.getDate() - daysBack).getTime();
  if (atMs >= midnight(0)) return "Today";
  if (atMs >= midnight(1)) return "Yesterday";
  return atMs >= midnight(6) ? "Last 7 days" : "Older";
}
