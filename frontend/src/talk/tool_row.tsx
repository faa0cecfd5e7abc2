/** One tool call: its target and state; opened, its input and output. */
import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { duration } from "../format.ts";
import { Icon } from "../icons.tsx";
import { harmless } from "../markdown/safe.ts";
import { type AskEntry, runNowMs, type ToolEntry } from "../state.ts";
import { useParts } from "./fetched.ts";
import { isTyped, standingOf, targetLine, toolIcon, wholeSeconds } from "./tool_words.ts";

export interface ToolRowProps {
  readonly tool: ToolEntry;
  readonly asked: AskEntry | undefined;
}

export function ToolRow({ tool, asked }: ToolRowProps): JSX.Element {
  const [open, setOpen] = useState(isTyped(tool));
  const parts = useParts(open);
  const id = useId();
  tool.version.value;
  asked?.version.value;
  const standing = standingOf(tool, asked);
  return (
    <div class={`tool${open ? " open" : ""}`}>
      <button
        type="button"
        class="tool-head"
        aria-expanded={open}
        aria-controls={id}
        onClick={() => setOpen(!open)}
      >
        <Icon name={toolIcon(tool.name)} />
        <span class="tool-name">{harmless(tool.name)}</span>
        <span class="tool-target">{targetLine(tool)}</span>
        <span class={`tool-standing tone-${standing.tone}`}>
          {standing.tone === "busy" ? (
            <span class="spinner" />
          ) : standing.tone === "ok" ? (
            <Icon name="check" />
          ) : null}
          <span class={standing.tone === "ok" ? "unseen" : ""}>{standing.words}</span>
        </span>
        <Took tool={tool} />
        <Icon name="chevron" />
      </button>
      <div id={id} class="tool-body" hidden={!open}>
        {open && parts ? <parts.ToolInside tool={tool} asked={asked} /> : null}
      </div>
    </div>
  );
}

function Took({ tool }: { readonly tool: ToolEntry }): JSX.Element {
  if (tool.state === "ended") return <span class="tool-took">{tool.ms >= 1 ? duration(tool.ms) : ""}</span>;
  if (tool.started_ms === 0) return <span class="tool-took" />;
  return <span class="tool-took">{wholeSeconds(runNowMs.value - tool.started_ms)}</span>;
}
