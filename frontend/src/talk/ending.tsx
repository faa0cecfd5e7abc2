/** How a run ended: quiet if it is complete; else the cause in bold, the details folded, and a way to try again. */
import type { JSX } from "preact";
import { count, duration, moment, money, plural, timeOfDay } from "../format.ts";
import { changesOf } from "../frame/ui.ts";
import { Icon, type IconName } from "../icons.tsx";
import { harmless } from "../markdown/safe.ts";
import {
  type EndingEntry,
  fork,
  isCommand,
  newVersion,
  type PersonEntry,
  retry,
  session,
  targets,
} from "../state.ts";
import { type Acting, useActing } from "./acting.ts";
import { CopyButton } from "./copy_button.tsx";
import { useParts } from "./fetched.ts";
import { PinButton } from "./pin_button.tsx";
import { Problem } from "./problem.tsx";
import { answerOf } from "./rows.ts";
import { isCompaction } from "./send_key.ts";
import { isRefused } from "./tool_words.ts";

type Tone = "quiet" | "warn" | "danger";

const LOOKS: Readonly<Record<EndingEntry["outcome"], { tone: Tone; icon: IconName; again: string }>> = {
  completed: { tone: "quiet", icon: "check", again: "" },
  cancelled: { tone: "quiet", icon: "stop", again: "Run again" },
  refused: { tone: "warn", icon: "hand", again: "Retry" },
  truncated: { tone: "warn", icon: "warning", again: "Retry" },
  budget: { tone: "warn", icon: "warning", again: "Retry" },
  interrupted: { tone: "warn", icon: "bolt", again: "Retry" },
  failed: { tone: "danger", icon: "warning", again: "Retry" },
};

export function Ending({
  entry,
  last,
}: {
  readonly entry: EndingEntry;
  readonly last: boolean;
}): JSX.Element {
  const acting = useActing();
  return (
    <div class="ending">
      {entry.outcome === "completed" ? null : <Verdict entry={entry} last={last} acting={acting} />}
      <RefusedActions runId={entry.run_id} />
      <FilesChanged runId={entry.run_id} />
      <Tools entry={entry} last={last} acting={acting} />
      <Problem words={acting.trouble} />
    </div>
  );
}

interface Props {
  readonly entry: EndingEntry;
  readonly last: boolean;
  readonly acting: Acting;
}

function Verdict({ entry, last, acting }: Props): JSX.Element {
  const { tone, icon, again } = LOOKS[entry.outcome];
  const mark = session.value?.marks.value[entry.run_id] ?? "";
  const idle = session.value?.currentRun.value === null;
  const parts = useParts(entry.failure !== null || entry.trace.length > 0);
  return (
    <div class={`verdict ${tone}`} role="group" aria-label="Run outcome">
      <Icon name={icon} />
      <div class="verdict-words">
        <Words entry={entry} />
        {mark === "" ? null : <p class="muted">{mark}</p>}
        {parts && <parts.EndingDetails entry={entry} />}
      </div>
      {last && idle && !isCommand(personOf(entry.run_id)?.message.text ?? "") ? (
        <button
          type="button"
          class="button small"
          disabled={acting.busy}
          onClick={() => acting.act(() => retry(entry.run_id))}
        >
          <Icon name="retry" />
          {again}
        </button>
      ) : null}
    </div>
  );
}

function Words({ entry }: { readonly entry: EndingEntry }): JSX.Element {
  const { kind, cause, advice } = saidOf(entry);
  return (
    <>
      <p>
        {cause === "" ? "" : `${kind}: `}
        <strong>{cause || kind}</strong>
        {/[.!?]$/.test(cause) ? "" : "."}
      </p>
      {advice === "" ? null : <p class="muted">{sentence(advice)}</p>}
    </>
  );
}

const CUT_OFF_ADVICE = "The text so far is saved. Send “continue” to get the rest, or ask for it in parts.";

/** "Failed: what happened; what to do": what happened is the cause. */
function saidOf(entry: EndingEntry): { kind: string; cause: string; advice: string } {
  const colon = entry.words.indexOf(": ");
  const kind = colon < 0 ? entry.words : entry.words.slice(0, colon);
  const why = harmless(colon < 0 ? "" : entry.words.slice(colon + 2));
  // a run that used up its budget says how much that was, and what to do, in its trace
  const said = entry.outcome === "budget" ? harmless(entry.trace[0] ?? "") : "";
  const end = said.indexOf(". ");
  if (end > 0) return { kind, cause: said.slice(0, end + 1), advice: said.slice(end + 2) };
  const semicolon = entry.failure === null ? -1 : why.lastIndexOf("; ");
  if (semicolon >= 0) return { kind, cause: why.slice(0, semicolon), advice: why.slice(semicolon + 2) };
  return { kind, cause: why, advice: entry.outcome === "truncated" && why === "" ? CUT_OFF_ADVICE : "" };
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}

function personOf(runId: string): PersonEntry | undefined {
  return session.value?.entries.value.find(
    (one): one is PersonEntry => one.kind === "person" && one.run_id === runId,
  );
}

/** Whether a model answers it. */
const isForModel = (text: string): boolean => !isCompaction(text) && !isCommand(text);

function Tools({ entry, last, acting }: Props): JSX.Element {
  const here = session.value;
  const person = personOf(entry.run_id);
  const answer = (): string => answerOf(here?.entries.value ?? [], entry.run_id);
  const isAnswer = person !== undefined && entry.outcome === "completed" && isForModel(person.message.text);
  return (
    <div class={`talk-tools${last ? " stay" : ""}`}>
      {isCommand(person?.message.text ?? "") ? null : <CopyButton text={answer} what="answer" />}
      {isAnswer ? <PinButton id={entry.run_id} what="answer" acting={acting} /> : null}
      {isAnswer ? (
        <button
          type="button"
          class="icon-button small"
          aria-label="Regenerate"
          title="Regenerate this answer"
          disabled={acting.busy}
          onClick={() => acting.act(() => newVersion(person, person.message.text))}
        >
          <Icon name="retry" />
        </button>
      ) : null}
      <button
        type="button"
        class="icon-button small"
        aria-label="Fork from here"
        title="Fork from here: start a new chat from this answer"
        disabled={acting.busy}
        onClick={() => acting.act(() => fork(entry.seq))}
      >
        <Icon name="fork" />
      </button>
      <span class="talk-facts" title={moment(entry.at_ms)}>
        {factsOf(entry).join(" · ")}
      </span>
    </div>
  );
}

/** A run that was not allowed to do what it wanted is complete all the same, and must not look like a success. */
function RefusedActions({ runId }: { readonly runId: string }): JSX.Element | null {
  const tools = session.value?.runs.value.get(runId)?.tools.values() ?? [];
  const refused = [...tools].filter(isRefused).length;
  if (refused === 0) return null;
  return (
    <p class="notice-line tone-warn">
      <Icon name="hand" />
      {plural(refused, "action")} refused
    </p>
  );
}

/** Says how many files the run changed, and opens them. */
function FilesChanged({ runId }: { readonly runId: string }): JSX.Element | null {
  const files = session.value?.runs.value.get(runId)?.files_changed ?? 0;
  if (files === 0) return null;
  return (
    <button
      type="button"
      class="more"
      onClick={() => {
        changesOf.value = runId;
      }}
    >
      {plural(files, "file")} changed
    </button>
  );
}

function factsOf(entry: EndingEntry): string[] {
  const run = session.value?.runs.value.get(entry.run_id);
  const facts = [timeOfDay(entry.at_ms)];
  if (run === undefined) return facts;
  // with several models to choose from, the answer says which one gave it
  if (targets.value.length > 1 && run.activity.model) facts.push(harmless(run.activity.model));
  if (run.created_ms > 0) facts.push(duration(entry.at_ms - run.created_ms));
  const tokens = run.usage.input_tokens + run.usage.output_tokens;
  if (tokens > 0) facts.push(`${count(tokens)} tokens`);
  if (run.usage.cost_usd) facts.push(money(run.usage.cost_usd));
  return facts;
}
