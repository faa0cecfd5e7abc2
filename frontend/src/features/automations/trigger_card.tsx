/** One automation: when it is due, what became of it, and what can be done with it. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { FireShown, TriggerHistory, TriggerShown } from "../../bodies.ts";
import { momentIn } from "../../format.ts";
import { show } from "../../frame/commands.ts";
import { closeDialog } from "../../frame/ui.ts";
import { harmless } from "../../markdown/safe.ts";
import { Fact } from "../../server_panels/fact.tsx";
import { useRead } from "../../server_panels/refreshed.ts";
import { may, type Result } from "../../state.ts";
import { useActing } from "../../talk/acting.ts";
import { Problem } from "../../talk/problem.tsx";
import { answerMissed, deleteTrigger, readHistory, renewSecret, tell } from "./requests.ts";
import type { Revealed } from "./secret_card.tsx";
import type { HookKind } from "./signing.ts";
import { addressOf, fireWords, missedWords, stateOf } from "./words.ts";

interface TriggerCardProps {
  readonly trigger: TriggerShown;
  readonly onEdit: () => void;
  readonly onRevealed: (revealed: Revealed) => void;
  readonly onChanged: () => void;
}

export function TriggerCard({ trigger, onEdit, onRevealed, onChanged }: TriggerCardProps): JSX.Element {
  const state = stateOf(trigger);
  return (
    <li class="target">
      <header class="target-head">
        <span class={`health ${state.kind}`} aria-hidden="true" />
        <h3>
          {harmless(trigger.name)}
          <span class="fine muted">{harmless(trigger.when)}</span>
        </h3>
      </header>
      <dl class="facts">
        <Fact name="State">
          <span class={state.kind === "silent" ? "warned" : ""}>{state.words}</span>
        </Fact>
        <Fact name="Asks">{harmless(trigger.prompt)}</Fact>
        {trigger.workspace ? (
          <Fact name="Folder">
            <code>{harmless(trigger.workspace)}</code>
          </Fact>
        ) : null}
        {trigger.next?.length ? (
          <Fact name="Next">
            {trigger.next.map((at) => (
              <span key={at} class="line">
                {harmless(momentIn(1000 * at, trigger.zone))}
              </span>
            ))}
          </Fact>
        ) : null}
        {trigger.hook === undefined ? null : (
          <Fact name="Address">
            <code>{addressOf(trigger.hook, location.origin)}</code>
            {trigger.repeats ? (
              <span class="fine muted">Deliveries are deduplicated {harmless(trigger.repeats)}.</span>
            ) : null}
          </Fact>
        )}
        {trigger.deliver?.length ? (
          <Fact name="Results go to">
            {trigger.deliver.map((place) => (
              <span key={place} class="line">
                <code>{harmless(place)}</code>
              </span>
            ))}
          </Fact>
        ) : null}
        {trigger.times ? (
          <Fact name="Runs left">{`${trigger.times_left ?? 0} of ${trigger.times}`}</Fact>
        ) : null}
        {trigger.skills?.length ? <Fact name="Skills">{harmless(trigger.skills.join(", "))}</Fact> : null}
        {trigger.script ? (
          <Fact name="Script">
            <code>{harmless(trigger.script)}</code>
          </Fact>
        ) : null}
        {trigger.last === undefined ? null : (
          <Fact name="Last">
            <Fire fire={trigger.last} zone={trigger.zone} />
          </Fact>
        )}
      </dl>
      <Missed trigger={trigger} onChanged={onChanged} />
      {may("admin") ? (
        <Verbs trigger={trigger} onEdit={onEdit} onRevealed={onRevealed} onChanged={onChanged} />
      ) : null}
      <History id={trigger.id} zone={trigger.zone} />
    </li>
  );
}

function Fire({ fire, zone }: { readonly fire: FireShown; readonly zone: string | undefined }): JSX.Element {
  const { session_id: id } = fire;
  const open = (): void => {
    closeDialog("automations");
    if (id) show(id);
  };
  return (
    <span class="line">
      {harmless(`${momentIn(1000 * fire.due_at, zone)}: ${fireWords(fire)}`)}
      {id ? (
        <button type="button" class="button quiet small" onClick={open}>
          Open the chat
        </button>
      ) : null}
    </span>
  );
}

/** Asks whether a run should make up for what was missed. */
function Missed({
  trigger,
  onChanged,
}: {
  readonly trigger: TriggerShown;
  readonly onChanged: () => void;
}): JSX.Element | null {
  const acting = useActing();
  const missed = trigger.unanswered;
  if (missed === undefined) return null;
  const answer = async (run: boolean): Promise<void> => {
    if (await acting.act(() => answerMissed(trigger.id, run))) onChanged();
  };
  return (
    <div class="target-try">
      <span>{missedWords(missed, trigger.zone)}. Run it once for all of them?</span>
      <button type="button" class="button small" onClick={() => void answer(true)}>
        Run once
      </button>
      <button type="button" class="button small" onClick={() => void answer(false)}>
        Skip
      </button>
      <Problem words={acting.trouble} />
    </div>
  );
}

function Verbs({ trigger, onEdit, onRevealed, onChanged }: TriggerCardProps): JSX.Element {
  const acting = useActing();
  const [sure, setSure] = useState<"" | "delete" | "secret">("");
  const act = async (work: () => Promise<Result<unknown>>): Promise<void> => {
    setSure("");
    if (await acting.act(work)) onChanged();
  };
  const renew = (): Promise<void> =>
    act(async () => {
      const result = await renewSecret(trigger.id);
      if (result.ok) {
        onRevealed({
          name: trigger.name,
          hook: trigger.hook ?? "",
          kind: (trigger.webhook ?? "bearer") as HookKind,
          secret: result.value.secret,
        });
      }
      return result;
    });
  const button = (words: string, work: () => void): JSX.Element => (
    <button type="button" class="button small" aria-disabled={acting.busy} onClick={work}>
      {words}
      <span class="unseen">{harmless(trigger.name)}</span>
    </button>
  );
  const isPaused = trigger.state === "paused" || trigger.state === "gave_up";
  return (
    <div class="target-try">
      {button("Run now", () => void act(() => tell(trigger.id, "run")))}
      {trigger.state === "done"
        ? trigger.times
          ? button("Start over", () => void act(() => tell(trigger.id, "resume")))
          : null
        : button(isPaused ? "Resume" : "Pause", () =>
            act(() => tell(trigger.id, isPaused ? "resume" : "pause")),
          )}
      {trigger.held_until === undefined
        ? null
        : button("Start now", () => void act(() => tell(trigger.id, "resume")))}
      {trigger.kind === "after" ? null : button("Edit", onEdit)}
      {trigger.kind === "webhook" ? button("New secret", () => setSure("secret")) : null}
      {button("Delete", () => setSure("delete"))}
      {sure === "delete" ? (
        <span role="alert">
          Delete it? Its chats are kept.{" "}
          <button
            type="button"
            class="button small"
            onClick={() => void act(() => deleteTrigger(trigger.id))}
          >
            Delete
          </button>
        </span>
      ) : null}
      {sure === "secret" ? (
        <span role="alert">
          The old secret stops working immediately.{" "}
          <button type="button" class="button small" onClick={() => void renew()}>
            Replace
          </button>
        </span>
      ) : null}
      <Problem words={acting.trouble} />
    </div>
  );
}

function History({ id, zone }: { readonly id: string; readonly zone: string | undefined }): JSX.Element {
  const { value: history, trouble, again } = useRead(() => readHistory(id));
  return (
    <details class="trigger-history" onToggle={(event) => event.currentTarget.open && again()}>
      <summary>History</summary>
      <Problem words={trouble} />
      {history === null ? null : (
        <ol>
          {linesOf(history, zone).map(({ atS, key, line }) => (
            <li key={`${atS} ${key}`}>{line}</li>
          ))}
          {history.fires.length + history.missed.length === 0 ? <li>Nothing yet.</li> : null}
        </ol>
      )}
    </details>
  );
}

interface Line {
  readonly atS: number;
  readonly key: string;
  readonly line: JSX.Element | string;
}

/** What happened and what was missed, newest first. */
function linesOf({ fires, missed }: TriggerHistory, zone: string | undefined): readonly Line[] {
  const fired = fires.map((fire) => ({
    atS: fire.due_at,
    key: fire.key,
    line: <Fire fire={fire} zone={zone} />,
  }));
  const gone = missed.map((one) => ({ atS: one.last_at, key: "missed", line: missedWords(one, zone) }));
  return [...fired, ...gone].sort((a, b) => b.atS - a.atS);
}
