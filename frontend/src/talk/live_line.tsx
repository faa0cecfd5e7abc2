/** What happens right now: the state of the run, since when, and which deadline comes next. */
import type { JSX } from "preact";
import { harmless } from "../markdown/safe.ts";
import {
  connection,
  type Entry,
  live,
  type OpenSession,
  type RunView,
  runNowMs,
  statusOf,
} from "../state.ts";
import { wholeSeconds } from "./tool_words.ts";

// a silence is told by the second; the length of the whole run only when it is another number
const IN_ALL_FROM_MS = 20_000;

/** How the dot looks: it moves while nothing else does. */
type Mood = "busy" | "steady" | "calm";

const ANSWERING = "Answering";
const WAITING = "Waits for you";
const MOODS: ReadonlyMap<string, Mood> = new Map([
  [ANSWERING, "steady"],
  [WAITING, "calm"],
]);

export function Live({ here }: { readonly here: OpenSession }): JSX.Element | null {
  const run = here.currentRun.value;
  const starting = run === null && !here.queuePaused.value && here.waiting.value.length > 0;
  if (run === null)
    return starting ? (
      <Line words="Starting" sinceMs={here.waiting.value[0]?.at_ms ?? 0} mood="busy" />
    ) : null;
  if (connection.value === "reconnecting" || connection.value === "offline") return <Lost />;
  const line = live.value;
  const words = line !== null && line.run_id === run.run_id ? line.text : "";
  if (statusOf(run) === "running" && words !== "") return <Said words={words} run={run} />;
  const state = stateOf(run, here.entries.value);
  return <Line words={state} sinceMs={run.started_ms} mood={MOODS.get(state) ?? "busy"} />;
}

/** Nothing is heard of the run, so nothing is said about it but that it needs no page. */
function Lost(): JSX.Element {
  return (
    <p class="live">
      <span class="pulse calm" aria-hidden="true" />
      <span class="live-state">{connection.value === "offline" ? "No network" : "Reconnecting"}</span>
      <span class="live-part">nothing is lost, the page catches up by itself</span>
    </p>
  );
}

/** The server's own words, which hold how long it has been silent and what comes next. */
function Said({ words, run }: { readonly words: string; readonly run: RunView }): JSX.Element {
  const [state, ...rest] = harmless(words).split(" · ");
  return (
    <p class="live">
      <span class="pulse" aria-hidden="true" />
      <span class="live-state">{capital(state ?? "")}</span>
      {rest.map((part) => (
        <span key={part} class="live-part">
          {part}
        </span>
      ))}
      <Elapsed sinceMs={run.started_ms} words="in all" fromMs={IN_ALL_FROM_MS} />
    </p>
  );
}

interface LineProps {
  readonly words: string;
  readonly sinceMs: number;
  readonly mood: Mood;
}

function Line({ words, sinceMs, mood }: LineProps): JSX.Element {
  return (
    <p class="live">
      <span class={`pulse ${mood}`} aria-hidden="true" />
      <span class="live-state">{words}</span>
      <Elapsed sinceMs={sinceMs} />
    </p>
  );
}

interface ElapsedProps {
  readonly sinceMs: number;
  readonly words?: string;
  readonly fromMs?: number;
}

function Elapsed({ sinceMs, words = "", fromMs = 1000 }: ElapsedProps): JSX.Element | null {
  const lengthMs = runNowMs.value - sinceMs;
  if (sinceMs === 0 || lengthMs < fromMs) return null;
  return (
    <span class="live-part">
      {wholeSeconds(lengthMs)} {words}
    </span>
  );
}

function stateOf(run: RunView, entries: readonly Entry[]): string {
  const status = statusOf(run);
  if (status === "stopping") return "Stopping";
  if (status === "waiting_for_approval") return WAITING;
  if (status === "queued") return "Waits for its turn";
  if (run.gate_until_ms > 0) return "Waits for the provider";
  const newest = entries.findLast((entry) => entry.run_id === run.run_id);
  if (newest === undefined || newest.kind === "person") return waitingFor(run);
  if (newest.kind === "text" && !newest.done) return ANSWERING;
  if (newest.kind === "thinking" && !newest.done) return "Thinking";
  if (newest.kind === "tool" && newest.state !== "ended") return "Working";
  return waitingFor(run);
}

function waitingFor(run: RunView): string {
  return run.target === "" ? "Starting" : `Waiting for ${run.target}`;
}

/** A sentence begins with a capital, unless it begins with the name of a model. */
function capital(text: string): string {
  return /^[a-z]+ing /.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
}
