/** The sub-agents that an answer started: a tree with what each of them does, and a way to open it. */
import type { ComponentChildren, JSX } from "preact";
import type { ParentShown } from "../../bodies.ts";
import { money, plural } from "../../format.ts";
import { addressOf } from "../../frame/address.ts";
import { Icon } from "../../icons.tsx";
import { harmless } from "../../markdown/safe.ts";
import { type ChildShown, family, open } from "../../state.ts";

const WORDS: Readonly<Record<string, string>> = {
  starting: "Starting",
  queued: "Queued",
  running: "Working",
  waiting_for_approval: "Needs you",
  waiting_for_children: "Waiting for sub-agents",
  stopping: "Stopping",
  completed: "Done",
  refused: "Refused",
  truncated: "Cut off",
  budget: "Budget used up",
  failed: "Failed",
  cancelled: "Stopped",
  interrupted: "Interrupted",
};

/** The sub-agents of these calls, each with its own below it. */
export function Agents({ calls }: { readonly calls: readonly string[] }): JSX.Element | null {
  const data = family.value?.data ?? [];
  const own = data.filter((child) => child.depth === 1 && calls.includes(child.tool_call_id));
  if (own.length === 0) return null;
  return <Level of={own} all={data} label={`${plural(own.length, "sub-agent")}`} />;
}

interface LevelProps {
  readonly of: readonly ChildShown[];
  readonly all: readonly ChildShown[];
  readonly label: string;
}

function Level({ of, all, label }: LevelProps): JSX.Element {
  return (
    <ul class="agents" aria-label={label}>
      {of.map((child) => {
        const below = all.filter((one) => one.parent_session_id === child.session_id);
        return (
          <li key={child.session_id}>
            <Agent child={child} />
            {below.length === 0 ? null : <Level of={below} all={all} label={`Sub-agents of ${child.name}`} />}
          </li>
        );
      })}
    </ul>
  );
}

function Agent({ child }: { readonly child: ChildShown }): JSX.Element {
  const state = child.outcome ?? child.status;
  const cost = child.usage?.cost_usd;
  const tokens = child.usage?.total_tokens ?? 0;
  const task = (child.task ?? "").split("\n", 1)[0] ?? "";
  return (
    <AgentLink session={child.session_id} class="agent" title={harmless(child.task ?? "")}>
      <State state={state} />
      <strong>{harmless(child.name)}</strong>
      <span class={state === "waiting_for_approval" ? "tone-warn" : "agent-state"}>
        {WORDS[state] ?? state}
      </span>
      <span class="agent-line" dir="auto">
        {harmless(child.last_line || task)}
      </span>
      <span class="agent-cost">{cost ? money(cost) : tokens > 0 ? plural(tokens, "token") : ""}</span>
    </AgentLink>
  );
}

function State({ state }: { readonly state: string }): JSX.Element {
  if (state === "completed") return <Icon name="check" />;
  if (state === "waiting_for_approval") return <Icon name="hand" />;
  if (state === "queued") return <Icon name="clock" />;
  return state in OVER ? <Icon name="stop" /> : <span class="spinner" />;
}

const OVER = { refused: 1, truncated: 1, budget: 1, failed: 1, cancelled: 1, interrupted: 1 };

/** The ending of a sub-agent in the background, which the model reads like a message. */
export function AgentSaid({
  session,
  text,
}: {
  readonly session: string;
  readonly text: string;
}): JSX.Element {
  const [head = "", ...rest] = text.split("\n\n");
  const name = /^\[Sub-agent (\S+)/.exec(head)?.[1] ?? "A sub-agent";
  return (
    <article class="agent-said" aria-label={name}>
      <p class="agent-said-head">
        <Icon name="fork" />
        <AgentLink session={session}>{harmless(name)}</AgentLink> has ended
      </p>
      <p dir="auto">{harmless(rest.join("\n\n"))}</p>
    </article>
  );
}

interface AgentLinkProps {
  readonly session: string;
  readonly class?: string;
  readonly title?: string;
  readonly children: ComponentChildren;
}

/** A link that opens a session in this tab, or as the person wants it. */
function AgentLink({ session, children, ...rest }: AgentLinkProps): JSX.Element {
  return (
    <a
      {...rest}
      href={addressOf(session)}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        open(session);
      }}
    >
      {children}
    </a>
  );
}

/** Where a sub-agent's chat leads back to. */
export function ParentLink({ parent }: { readonly parent: ParentShown }): JSX.Element {
  return (
    <AgentLink
      session={parent.session_id}
      class="parent-link"
      title="Back to the chat that started this sub-agent"
    >
      <Icon name="back" />
      {harmless(parent.name)}
    </AgentLink>
  );
}
