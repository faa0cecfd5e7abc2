/** What is said about a target; pure. */
import type { TargetState } from "../bodies.ts";
import { ago, countdown, duration, grouped, plural } from "../format.ts";

export interface HealthWords {
  readonly kind: "good" | "waiting" | "silent" | "unknown";
  readonly words: string;
  readonly why: string;
}

/** How the target is; `atMs` is when the server said so, and its waits count from then. */
export function healthOf(target: TargetState, atMs: number, nowMs: number): HealthWords {
  const left = (waitMs: number): string => countdown(atMs + waitMs - nowMs);
  switch (target.health) {
    case "unreachable":
      return { kind: "silent", words: "Unreachable", why: "Calls retry automatically." };
    case "silent": {
      const times = plural(target.silent_times ?? 0, "call");
      const next = target.silent_ms > 0 ? `Retry in ${left(target.silent_ms)}.` : "The next call retries it.";
      return { kind: "silent", words: "Paused", why: `${times} in a row got no answer. ${next}` };
    }
    case "waiting":
      return {
        kind: "waiting",
        words: `Paused for ${left(target.gated_ms)}`,
        // the same words are in the last error, unless an earlier process heard them
        why:
          target.last_failure == null && target.gate_why
            ? target.gate_why
            : "The provider requested a pause.",
      };
    case "failing":
      return { kind: "waiting", words: "The last call failed", why: "" };
    default: {
      const used = target.last_answer_at != null || target.last_failure != null;
      return used
        ? { kind: "good", words: "Ready", why: "" }
        : { kind: "unknown", words: "Not used yet", why: "No calls since the server started." };
    }
  }
}

export function callsOf({ active_calls: active = 0, waiting_calls: waiting = 0 }: TargetState): string {
  if (active + waiting === 0) return "None";
  const parts = [active > 0 ? `${active} running` : "", waiting > 0 ? `${waiting} waiting` : ""];
  return parts.filter(Boolean).join(", ");
}

/** When something was, with the word that a sentence needs. */
export function since(atS: number, nowMs: number): string {
  const passed = ago(atS * 1000, nowMs);
  if (passed === "now") return "just now";
  return /^\d+ (min|h|d)$/.test(passed) ? `${passed} ago` : passed;
}

const WHYS: Readonly<Record<string, string>> = {
  configured: "as configured",
  learned: "learned",
  usual: "learned",
  cap: "limited by the configuration",
  ttfb_off: "the first-event limit is off",
};

/** A length in seconds, where none is without end. */
function seconds(value: number): string {
  return value > 0 ? duration(1000 * value) : "no limit";
}

export function patienceOf(target: TargetState): string {
  const { patience } = target;
  if (!patience) return "";
  const why = WHYS[patience.first_event_why];
  const first = `${seconds(patience.first_event_s)}${why ? ` (${why})` : ""}`;
  return `${first} to the first token, ${seconds(patience.gap_s)} between chunks`;
}

/** What was learned about requests of each size. */
export function learnedOf({ learned = [], patience }: TargetState): string[] {
  return learned.map((one) => {
    const size =
      one.input_tokens_min === 0 ? "Small requests" : `From ${grouped(one.input_tokens_min)} tokens`;
    const waits = one.waits_s === patience?.first_event_s ? "" : `; limit ${seconds(one.waits_s)}`;
    const p95 = duration(1000 * one.first_event_p95_s);
    return `${size}: 95% start within ${p95} (last ${plural(one.calls, "call")})${waits}`;
  });
}

const KINDS: Readonly<Record<string, string>> = {
  auth: "Wrong key",
  connect_failed: "No connection",
  no_first_event: "No answer",
  tls_untrusted: "Certificate not trusted",
};

/** The kind of a failure as a heading: "rate_limited" is "Rate limited". */
export function kindWords(kind: string): string {
  const words = kind.replaceAll("_", " ");
  return KINDS[kind] ?? words.charAt(0).toUpperCase() + words.slice(1);
}

/** With a full stop, if there is none. */
export function stopped(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}
