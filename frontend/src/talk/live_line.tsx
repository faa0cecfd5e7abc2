/** What happens right now: the state of the run, since when, and which deadline comes next. */
import type { JSX } from "preact";
import { harmless } from "../markdown/safe.ts";
import {
  connection,
  heard,
  live,
  type OpenSession,
  type RunView,
  runNowMs,
  type ToolEntry,
} from "../state.ts";
import { CERTAIN, MOVING, stateOf, wordsOf } from "../view/activity.ts";
import { toolWords, wholeSeconds } from "./tool_words.ts";

// a state is told by the second; the length of the whole run only when it is another number
const IN_ALL_FROM_MS = 20_000;
// an answer comes in gusts; a longer pause is silence
const SILENT_MS = 3000;
const FOREVER_MS = Number.POSITIVE_INFINITY;
// stands for no letter
const PLACE = "\uE000";

/** The run under way, or the one that is next. */
export function shownRun(here: OpenSession): RunView | undefined {
  const first = here.queuePaused.value ? undefined : here.waiting.value[0];
  const run = here.currentRun.value ?? here.runs.value.get(first?.run_id ?? "");
  return run?.phase === "ended" ? undefined : run;
}

export function Live({ here }: { readonly here: OpenSession }): JSX.Element | null {
  const run = shownRun(here);
  // of a session that is away, its mark says all that is known
  if (run === undefined || here.isAway.value) return null;
  if (connection.value === "reconnecting" || connection.value === "offline")
    // nothing is heard of the run, so nothing is said about it but that it needs no page
    return (
      <Line
        mood="calm"
        parts={[
          connection.value === "offline" ? "Offline" : "Reconnecting",
          "nothing is lost; this page catches up",
        ]}
      />
    );
  const [name, toolId = ""] = stateOf(run.activity);
  const said = live.value;
  if (said?.run_id === run.run_id && said.text !== "" && !CERTAIN.has(name)) {
    // the server's own words, which hold how long it has been silent and what comes next
    const [state = "", ...rest] = harmless(said.text).split(" · ");
    const isSilent = name === "answering" && state === wordsOf(run.activity, "");
    return <Line mood="" parts={[isSilent ? waitingFor(run) : state, ...rest]} run={run} />;
  }
  const silentMs = name === "answering" ? silenceOf(here) : 0;
  if (silentMs >= SILENT_MS)
    return (
      <Line
        mood=""
        parts={[waitingFor(run), ...(silentMs < FOREVER_MS ? [wholeSeconds(silentMs)] : [])]}
        run={run}
      />
    );
  const tool = run.tools.get(toolId);
  const words = tool === undefined ? wordsOf(run.activity, "") : toolLine(run, tool);
  const passed = MOVING.has(name)
    ? 0
    : runNowMs.value - (run.activity.running[toolId] ?? run.activity.changed_ms);
  const parts = passed < 1000 ? [words] : [words, wholeSeconds(passed)];
  const mood = MOVING.has(name) ? "steady" : name === "approval" || name === "question" ? "calm" : "";
  return <Line mood={mood} parts={parts} run={run} />;
}

/** For how long no word has come; for ever if the page was opened in the middle of it. */
function silenceOf({ id }: OpenSession): number {
  const last = heard.peek();
  return last.session_id === id ? runNowMs.value - last.at_ms : FOREVER_MS;
}

function waitingFor(run: RunView): string {
  return `waiting for ${run.activity.model || "the model"}`;
}

/** The state of a tool call with what the call does: "running pytest -q", "about to read src/app.py". */
function toolLine(run: RunView, tool: ToolEntry): string {
  const [to, ing] = toolWords(tool);
  // the words of the state are about running a tool, whatever it does
  return wordsOf(run.activity, PLACE).replace(/\b(running|run) \uE000/, (_, form: string) =>
    form === "run" ? to : ing,
  );
}

interface LineProps {
  /** How the dot looks: it moves while nothing else does. */
  readonly mood: "" | "steady" | "calm";
  readonly parts: readonly string[];
  readonly run?: RunView;
}

function Line({ mood, parts: [state = "", ...rest], run }: LineProps): JSX.Element {
  const wholeMs = run?.started_ms ? runNowMs.value - run.started_ms : 0;
  const inAll = `${wholeSeconds(wholeMs)} total`;
  const shown = wholeMs < IN_ALL_FROM_MS || rest.includes(wholeSeconds(wholeMs)) ? rest : [...rest, inAll];
  return (
    <p class="live">
      <span class={`pulse ${mood}`} aria-hidden="true" />
      <span class="live-state">{capital(state, run)}</span>
      {shown.map((part) => (
        <span key={part} class="live-part">
          {part}
        </span>
      ))}
    </p>
  );
}

/** A sentence begins with a capital, unless it begins with the name of a model. */
function capital(text: string, run: RunView | undefined): string {
  const isNamed = run !== undefined && run.activity.model !== "" && text.startsWith(run.activity.model);
  return isNamed ? text : text.charAt(0).toUpperCase() + text.slice(1);
}
