/** The work between two texts: one quiet row that opens to what was thought and which tools ran. */
import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { AgentsPlace } from "../features/delegation/agent_places.tsx";
import { duration, plural } from "../format.ts";
import { Icon } from "../icons.tsx";
import { harmless } from "../markdown/safe.ts";
import {
  type AskEntry,
  type Entry,
  runNowMs,
  session,
  type ThinkingEntry,
  type ToolEntry,
} from "../state.ts";
import { AskRow } from "./ask_row.tsx";
import { isBusy, spentMs, type Work } from "./rows.ts";
import { ToolRow } from "./tool_row.tsx";
import { isRefused, isTyped, standingOf, targetLine, toolIcon, wholeSeconds } from "./tool_words.ts";

export function Activity({ work }: { readonly work: readonly Work[] }): JSX.Element {
  const [open, setOpen] = useState(work.some(isTyped));
  const id = useId();
  // every entry of the row counts for its head
  for (const one of work) one.version.value;
  const busy = isUnderWay(work);
  const tools = work.filter((one) => one.kind === "tool");
  const thoughts = work.filter((one) => one.kind === "thinking");
  const asks = new Map(work.filter((one) => one.kind === "ask").map((one) => [one.tool_call_id, one]));
  const waits = [...asks.values()].some((ask) => ask.state === "open");
  const refused = tools.filter(isRefused).length;
  const failed = tools.filter(
    (tool) => !isRefused(tool) && ["danger", "warn"].includes(standingOf(tool, undefined).tone),
  ).length;
  return (
    <div class={`activity${open ? " open" : ""}`} role="group" aria-label="Activity">
      <button
        type="button"
        class="activity-head"
        aria-expanded={open}
        aria-controls={id}
        onClick={() => setOpen(!open)}
      >
        {busy && !waits ? (
          <span class="spinner" />
        ) : (
          <Icon name={waits ? "hand" : tools.length > 0 ? "tool" : "brain"} />
        )}
        <Head work={work} tools={tools} thoughts={thoughts} />
        {refused > 0 ? <span class="tone-warn">{refused} refused</span> : null}
        {failed > 0 ? <span class="tone-warn">{failed} not completed</span> : null}
        <Icon name="chevron" />
      </button>
      <AgentsPlace
        calls={tools.filter((tool) => tool.name === "delegate").map((tool) => tool.tool_call_id)}
      />
      <div id={id} class="activity-body" hidden={!open}>
        {open ? work.map((one) => <WorkRow key={one.key} one={one} tools={tools} asks={asks} />) : null}
      </div>
    </div>
  );
}

/** What a stop or a crash cut off is not under way, though nothing ended it; nor is a thought once words follow it. */
function isUnderWay(work: readonly Work[]): boolean {
  const here = session.value;
  const runId = work[0]?.run_id;
  if (!isBusy(work) || here?.currentRun.value?.run_id !== runId) return false;
  const newest = here?.entries.value.findLast((one) => one.run_id === runId && WORKING.has(one.kind));
  return isBusy(work.filter((one) => one.kind !== "thinking" || one === newest));
}

const WORKING: ReadonlySet<Entry["kind"]> = new Set(["text", "thinking", "tool"]);

interface HeadProps {
  readonly work: readonly Work[];
  readonly tools: readonly ToolEntry[];
  readonly thoughts: readonly ThinkingEntry[];
}

function Head({ work, tools, thoughts }: HeadProps): JSX.Element {
  const busy = isUnderWay(work);
  const spent = spentMs(work, busy ? runNowMs.value : 0);
  const took = spent < (busy ? 1000 : 50) ? "" : ` · ${busy ? wholeSeconds(spent) : duration(spent)}`;
  // of several pending ones, the first is running or waits for a person
  const current = busy ? tools.find((tool) => tool.state !== "ended") : undefined;
  if (current !== undefined) {
    return (
      <span class="activity-words">
        {tools.length > 1 ? `Activity: ${plural(tools.length, "tool")}` : "Activity"}
        {took}
        <span class="activity-now">
          <Icon name={toolIcon(current.name)} />
          {current.name} <span class="tool-target">{targetLine(current)}</span>
        </span>
      </span>
    );
  }
  if (tools.length === 0)
    return <span class="activity-words">{busy ? `Thinking${took}` : `Thought${thoughtFor(thoughts)}`}</span>;
  const only = tools.length === 1 ? tools[0] : undefined;
  return (
    <span class="activity-words">
      Activity: {plural(tools.length, "tool")}
      {took}
      {only === undefined ? null : (
        <span class="activity-now">
          {only.name} <span class="tool-target">{targetLine(only)}</span>
        </span>
      )}
    </span>
  );
}

/** How much was thought, in words: entries don't have the time it took. */
function thoughtFor(thoughts: readonly ThinkingEntry[]): string {
  const words = thoughts.reduce((sum, one) => sum + one.text.split(/\s+/).length, 0);
  return words > 0 ? ` · ${plural(words, "word")}` : "";
}

interface WorkRowProps {
  readonly one: Work;
  readonly tools: readonly ToolEntry[];
  readonly asks: ReadonlyMap<string, AskEntry>;
}

function WorkRow({ one, tools, asks }: WorkRowProps): JSX.Element | null {
  switch (one.kind) {
    case "thinking":
      return <Thinking entry={one} />;
    case "tool":
      return <ToolRow tool={one} asked={asks.get(one.tool_call_id)} />;
    case "ask": {
      const isShown = tools.some((tool) => tool.tool_call_id === one.tool_call_id);
      return isShown ? null : <AskRow entry={one} />;
    }
  }
}

function Thinking({ entry }: { readonly entry: ThinkingEntry }): JSX.Element {
  entry.version.value;
  const text = harmless(entry.text).trim();
  return (
    <div class="thinking">
      <Icon name="brain" />
      <p dir="auto">{text === "" ? "The model doesn't share this reasoning." : text}</p>
    </div>
  );
}
