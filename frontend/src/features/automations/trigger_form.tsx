/** The form for an automation: it shows the next times before anything is saved. */
import type { JSX } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { NextInstants, TriggerMade, TriggerShown } from "../../bodies.ts";
import { Choices } from "../../frame/choices.tsx";
import { harmless } from "../../markdown/safe.ts";
import { useRead } from "../../server_panels/refreshed.ts";
import type { Result } from "../../state.ts";
import { useActing } from "../../talk/acting.ts";
import { Problem } from "../../talk/problem.tsx";
import { changeTrigger, makeTrigger, previewTrigger, readPlaces } from "./requests.ts";
import type { Revealed } from "./secret_card.tsx";
import type { HookKind } from "./signing.ts";
import {
  bodyOf,
  type Draft,
  draftOf,
  type KnownPlace,
  missingIn,
  newDraft,
  placesIn,
  timesOf,
  toggled,
  type When,
} from "./words.ts";

const SETTLED_MS = 300; // after the last key
const PLACES_SHOWN_MAX = 30; // more are written

interface TriggerFormProps {
  readonly trigger: TriggerShown | null;
  readonly onCancel: () => void;
  readonly onSaved: (revealed: Revealed | null) => void;
}

interface PartProps {
  readonly draft: Draft;
  readonly onChange: (more: Partial<Draft>) => void;
}

export function TriggerForm({ trigger, onCancel, onSaved }: TriggerFormProps): JSX.Element {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const [draft, setDraft] = useState(() => (trigger === null ? newDraft(zone) : draftOf(trigger, zone)));
  const [missing, setMissing] = useState("");
  const saving = useActing();
  const first = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => first.current?.focus(), []); // the button that opened the form is gone
  const change = (more: Partial<Draft>): void => {
    setDraft((known) => ({ ...known, ...more }));
    setMissing("");
  };
  const save = async (): Promise<void> => {
    const lacks = missingIn(draft);
    setMissing(lacks);
    if (lacks) return;
    let made: TriggerMade | null = null;
    const work = async (): Promise<Result<unknown>> => {
      if (trigger !== null) return changeTrigger(trigger.id, bodyOf(draft, trigger));
      const result = await makeTrigger(bodyOf(draft));
      if (result.ok) made = result.value;
      return result;
    };
    if (await saving.act(work)) onSaved(secretOf(made));
  };
  return (
    <form
      class="target trigger-form"
      aria-label={trigger === null ? "New automation" : `Edit ${trigger.name}`}
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <Field words="Name">
        {(id) => (
          <input
            id={id}
            ref={first}
            class="field"
            value={draft.name}
            maxLength={100}
            onInput={(event) => change({ name: event.currentTarget.value })}
          />
        )}
      </Field>
      <Field words="What should the agent do?">
        {(id) => (
          <textarea
            id={id}
            class="field"
            rows={3}
            value={draft.prompt}
            onInput={(event) => change({ prompt: event.currentTarget.value })}
          />
        )}
      </Field>
      <Times draft={draft} onChange={change} kindIsFixed={trigger !== null} />
      <Rules draft={draft} onChange={change} />
      <Problem words={missing || saving.trouble} />
      <div class="target-try">
        <button type="submit" class="button small primary" aria-disabled={saving.busy}>
          Save
        </button>
        <button type="button" class="button small" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </form>
  );
}

function secretOf(made: TriggerMade | null): Revealed | null {
  if (!made?.secret) return null;
  return {
    name: made.name,
    hook: made.hook ?? "",
    kind: (made.webhook ?? "bearer") as HookKind,
    secret: made.secret,
  };
}

interface FieldProps {
  readonly words: string;
  readonly children: (id: string) => JSX.Element;
}

function Field({ words, children }: FieldProps): JSX.Element {
  const id = useId();
  return (
    <div class="form-line">
      <label for={id}>{words}</label>
      {children(id)}
    </div>
  );
}

const KINDS: readonly { readonly value: When; readonly words: string }[] = [
  { value: "cron", words: "Schedule" },
  { value: "every", words: "Interval" },
  { value: "at", words: "Once" },
  { value: "webhook", words: "Webhook" },
];

function Times({ draft, onChange, kindIsFixed }: PartProps & { readonly kindIsFixed: boolean }): JSX.Element {
  const text = (name: "cron" | "zone" | "every", words: string): JSX.Element => (
    <Field words={words}>
      {(id) => (
        <input
          id={id}
          class="field"
          spellcheck={false}
          value={draft[name]}
          onInput={(event) => onChange({ [name]: event.currentTarget.value })}
        />
      )}
    </Field>
  );
  return (
    <>
      {kindIsFixed ? null : (
        <Choices<When>
          legend="When"
          value={draft.when}
          options={KINDS}
          onChange={(when) => onChange({ when })}
        />
      )}
      {draft.when === "cron" ? text("cron", "Cron (minute hour day month weekday)") : null}
      {draft.when === "cron" ? text("zone", "Time zone") : null}
      {draft.when === "every" ? text("every", "Every (such as 15m, 2h or 1d)") : null}
      {draft.when === "at" ? (
        <Field words="Date and time">
          {(id) => (
            <input
              id={id}
              type="datetime-local"
              class="field"
              value={draft.at}
              onInput={(event) => onChange({ at: event.currentTarget.value })}
            />
          )}
        </Field>
      ) : null}
      {draft.when === "webhook" ? <Signature draft={draft} onChange={onChange} /> : <Preview draft={draft} />}
    </>
  );
}

function Signature({ draft, onChange }: PartProps): JSX.Element {
  return (
    <>
      <Choices<HookKind>
        legend="Signature"
        value={draft.webhook}
        options={[
          { value: "github", words: "GitHub" },
          { value: "slack", words: "Slack" },
          { value: "stripe", words: "Stripe" },
          { value: "standard", words: "Standard Webhooks" },
          { value: "bearer", words: "Bearer" },
        ]}
        onChange={(webhook) => onChange({ webhook })}
      />
      <p class="fine muted">
        The agent gets what is delivered as quoted data. You can use a value of it in the task, such as{" "}
        <code>{"{{payload.repository.name}}"}</code>. Save to get the address and the secret.
      </p>
    </>
  );
}

/** The next times, as the server computes them. */
function Preview({ draft }: { readonly draft: Draft }): JSX.Element | null {
  const [found, setFound] = useState<Result<NextInstants> | null>(null);
  const times = timesOf(draft);
  const asked = JSON.stringify(times);
  const isComplete = Object.values(times).every((value) => value !== null && value !== "");
  useEffect(() => {
    let isOver = false;
    const timer = setTimeout(async () => {
      if (!isComplete) return;
      const result = await previewTrigger(times);
      if (!isOver) setFound(result);
    }, SETTLED_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [asked]);
  if (found === null || !isComplete) return null;
  if (!found.ok) return <Problem words={found.trouble.message} />;
  return (
    <div class="form-line" role="status">
      <span>Next runs</span>
      <ol class="next-times">
        {found.value.local.map((words) => (
          <li key={words}>{words}</li>
        ))}
        {found.value.local.length === 0 ? <li>None. This time has passed.</li> : null}
      </ol>
    </div>
  );
}

function Rules({ draft, onChange }: PartProps): JSX.Element {
  const places = useRead(readPlaces);
  return (
    <details onToggle={(event) => event.currentTarget.open && places.again()}>
      <summary>More</summary>
      {draft.when === "webhook" ? null : (
        <Choices<TriggerShown["missed"]>
          legend="Missed runs"
          value={draft.missed}
          options={[
            { value: "once", words: "Run once" },
            { value: "skip", words: "Skip" },
            { value: "ask", words: "Ask me" },
          ]}
          onChange={(missed) => onChange({ missed })}
        />
      )}
      <Choices<TriggerShown["overlap"]>
        legend="If the previous run is still active"
        value={draft.overlap}
        options={[
          { value: "queue", words: "Queue" },
          { value: "skip", words: "Skip" },
          { value: "replace", words: "Stop it and start" },
        ]}
        onChange={(overlap) => onChange({ overlap })}
      />
      <Choices<Draft["approvals"]>
        legend="Approvals"
        value={draft.approvals || (draft.when === "webhook" ? "unattended" : "ask")}
        options={[
          { value: "ask", words: "Ask me" },
          { value: "unattended", words: "Deny" },
        ]}
        onChange={(approvals) => onChange({ approvals })}
      />
      <Steps draft={draft} onChange={onChange} />
      <Places draft={draft} onChange={onChange} known={places.value ?? []} />
      <Problem words={places.trouble} />
    </details>
  );
}

/** What each run may use, how many there are, and the steps before the prompt. */
function Steps({ draft, onChange }: PartProps): JSX.Element {
  const text = (
    name: "skills" | "times" | "script" | "model" | "workspace" | "budget",
    words: string,
  ): JSX.Element => (
    <Field words={words}>
      {(id) => (
        <input
          id={id}
          class="field"
          spellcheck={false}
          value={draft[name]}
          onInput={(event) => onChange({ [name]: event.currentTarget.value })}
        />
      )}
    </Field>
  );
  return (
    <>
      {text("model", "Model (empty: the default)")}
      {text("workspace", "Workspace: a folder on the server (empty: the default)")}
      {text("budget", "Cost limit of each run, in US dollars (empty: no limit)")}
      {text("times", "Number of runs (empty: no limit)")}
      {text("skills", "Skills to read first (such as release-notes)")}
      {text("script", "Script to run first, in the sandbox; the agent gets its output")}
    </>
  );
}

/** Send results to: chats that the channels know can be ticked, others and addresses are written. */
function Places({
  draft,
  onChange,
  known,
}: PartProps & { readonly known: readonly KnownPlace[] }): JSX.Element {
  const chosen = placesIn(draft.deliver);
  return (
    <fieldset class="setting">
      <legend>Send results to</legend>
      {known.slice(0, PLACES_SHOWN_MAX).map(({ place, words }) => (
        <label key={place} class="channel-check">
          <input
            type="checkbox"
            checked={chosen.includes(place)}
            onChange={() => onChange({ deliver: toggled(draft.deliver, place) })}
          />
          {harmless(words)}
        </label>
      ))}
      <Field words="Chats (such as tg:123) or https URLs, one per line">
        {(id) => (
          <textarea
            id={id}
            class="field"
            rows={2}
            spellcheck={false}
            value={draft.deliver}
            onInput={(event) => onChange({ deliver: event.currentTarget.value })}
          />
        )}
      </Field>
      <p class="fine muted">Results also appear in the chat on this page.</p>
    </fieldset>
  );
}
