/** Proposed memories and skills: the change, its reason and its origin. Several can be decided at once. */
import type { JSX } from "preact";
import type { MemoryShown } from "../../bodies.ts";
import type { MemoryOrigin } from "../../events.ts";
import { ago } from "../../format.ts";
import { closeDialog } from "../../frame/ui.ts";
import { Icon } from "../../icons.tsx";
import { exact, harmless } from "../../markdown/safe.ts";
import { may, nowMs, openAt, type Proposal } from "../../state.ts";
import { useActing } from "../../talk/acting.ts";
import { Problem } from "../../talk/problem.tsx";
import { decideMemory } from "./requests.ts";

const ABOUT: Readonly<Record<MemoryShown["scope"], string>> = {
  user: "About you",
  workspace: "About a workspace",
  chat: "About a chat",
  skills: "A skill",
};

export function Proposals({ open }: { readonly open: readonly Proposal[] }): JSX.Element | null {
  const acting = useActing();
  if (open.length === 0) return null;
  const decideAll = (verdict: "accept" | "reject") => async (): Promise<void> => {
    for (const memory of new Set(open.map((one) => one.memory))) {
      const ids = open.filter((one) => one.memory === memory).map((one) => one.proposal.change_id);
      await acting.act(() => decideMemory(memory, verdict, ids));
    }
  };
  return (
    <section class="proposals" aria-label="Proposed memories">
      <header class="inbox-head">
        <Icon name="pin" />
        <strong>{open.every(isTyped) ? "Remember this?" : "The agent wants to remember this"}</strong>
        <span class="spread" />
        {open.length > 1 && may("approve") ? (
          <>
            <button
              type="button"
              class="button small"
              disabled={acting.busy}
              onClick={() => void decideAll("accept")()}
            >
              Accept all {open.length}
            </button>
            <button
              type="button"
              class="button small quiet"
              disabled={acting.busy}
              onClick={() => void decideAll("reject")()}
            >
              Reject all
            </button>
          </>
        ) : null}
      </header>
      <ul class="inbox">
        {open.map((one) => (
          <ProposalItem key={one.proposal.change_id} one={one} />
        ))}
      </ul>
      <Problem words={acting.trouble} />
    </section>
  );
}

/** Whether a person proposed it. */
const isTyped = ({ proposal }: Proposal): boolean => proposal.change_id.startsWith("typed/");

function ProposalItem({ one: { memory, proposal } }: { readonly one: Proposal }): JSX.Element {
  const acting = useActing();
  const decide = (verdict: "accept" | "reject") => (): void =>
    void acting.act(() => decideMemory(memory, verdict, [proposal.change_id]));
  const because = proposal.because ?? [];
  const place = memory.workspace ?? memory.chat ?? "";
  const where = proposal.document ? `“${proposal.document}” ${memory.chat ?? ""}` : place;
  return (
    <li class="inbox-item">
      <p class="inbox-head">
        <strong>{ABOUT[memory.scope]}</strong>
        <span class="muted">{harmless(where)}</span>
        <span class="muted">{ago(proposal.proposed_at * 1000, nowMs.value)}</span>
      </p>
      <Change before={proposal.before} after={proposal.after} />
      <p class="fine muted">Reason: {harmless(proposal.reason)}</p>
      {because.length > 0 ? (
        <p class="fine muted">Not only from your messages: {harmless(because.join("; "))}.</p>
      ) : null}
      {may("approve") ? (
        <div class="buttons">
          <button
            type="button"
            class="button small primary"
            disabled={acting.busy}
            onClick={decide("accept")}
          >
            {memory.scope === "skills" ? "Accept" : "Remember"}
          </button>
          <button type="button" class="button small" disabled={acting.busy} onClick={decide("reject")}>
            Reject
          </button>
          <OriginLink origin={proposal.origin} />
        </div>
      ) : null}
      <Problem words={acting.trouble} />
    </li>
  );
}

/** The lines that go and those that come. */
export function Change({ before, after }: { readonly before: string; readonly after: string }): JSX.Element {
  const [old, fresh] = [before, after].map((text) => text.split("\n").filter((line) => line !== ""));
  const gone = (old ?? []).filter((line) => !fresh?.includes(line));
  const come = (fresh ?? []).filter((line) => !old?.includes(line));
  return (
    <div class="memory-change">
      {gone.map((line) => (
        <del key={`- ${line}`} dir="auto">
          {exact(line)}
        </del>
      ))}
      {come.map((line) => (
        <ins key={`+ ${line}`} dir="auto">
          {exact(line)}
        </ins>
      ))}
    </div>
  );
}

/** Opens the chat at the message that something came from. */
export function OriginLink({ origin }: { readonly origin: MemoryOrigin | undefined }): JSX.Element | null {
  if (!origin?.message_id) return null;
  return (
    <button
      type="button"
      class="button small quiet"
      onClick={() => {
        closeDialog("memory");
        closeDialog("inbox");
        closeDialog("skills");
        openAt(origin.session_id, { seq: origin.seq ?? 0, passage: "" });
      }}
    >
      Open the message
    </button>
  );
}
