/** What a person said: a bubble, from the moment it is sent; each can be said anew. */
import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { isPassing } from "../api.ts";
import type { Part } from "../events.ts";
import { moment, timeOfDay } from "../format.ts";
import { Icon } from "../icons.tsx";
import { harmless } from "../markdown/safe.ts";
import {
  discard,
  fork,
  newVersion,
  type Pending,
  type PersonEntry,
  resend,
  saveDraft,
  session,
  versionsOf,
} from "../state.ts";
import { useActing } from "./acting.ts";
import { attachAgain } from "./attachments.ts";
import { CopyButton } from "./copy_button.tsx";
import { useParts } from "./fetched.ts";
import { focusComposer, useFocusBack } from "./focus.ts";
import { Parts } from "./parts.tsx";
import { PinButton } from "./pin_button.tsx";
import { Problem } from "./problem.tsx";
import { isCompaction, onEditingKey } from "./send_key.ts";

const LONG_CHARS = 1500;
const LONG_LINES = 18;

/** A message, wherever it is: in the log (`entry`), on its way (`pending`), or about to be taken up. */
export interface Said {
  readonly text: string;
  readonly parts: readonly Part[];
  readonly atMs: number;
  readonly entry: PersonEntry | null;
  readonly pending: Pending | null;
}

export function Person({ said, last }: { readonly said: Said; readonly last: boolean }): JSX.Element {
  const [editing, setEditing] = useState(false);
  const { entry, pending } = said;
  const failed = pending?.state === "failed";
  if (editing && entry !== null) return <Editing entry={entry} onClose={() => setEditing(false)} />;
  return (
    <article class={`person${pending !== null && !failed ? " on-its-way" : ""}`} aria-label="You">
      <div class="bubble">
        <Parts parts={said.parts} />
        <LongText text={harmless(said.text)} />
      </div>
      {failed && pending !== null ? <NotSent pending={pending} /> : null}
      {pending === null ? <Tools said={said} last={last} onEdit={() => setEditing(true)} /> : null}
    </article>
  );
}

function LongText({ text }: { readonly text: string }): JSX.Element | null {
  const [whole, setWhole] = useState(false);
  if (text === "") return null;
  const lines = text.split("\n", LONG_LINES + 1).length;
  const long = text.length > LONG_CHARS || lines > LONG_LINES;
  return (
    <>
      <p class={`said${long && !whole ? " cut" : ""}`} dir="auto">
        {text}
      </p>
      {long ? (
        <button type="button" class="more" aria-expanded={whole} onClick={() => setWhole(!whole)}>
          {whole ? "Show less" : "Show all"}
        </button>
      ) : null}
    </>
  );
}

/** A message that the server doesn't have: it stays until it's sent or discarded. */
function NotSent({ pending }: { readonly pending: Pending }): JSX.Element {
  const acting = useActing();
  const isLater = isPassing(pending.trouble);
  const takeBack = (): void => {
    const kept = discard(pending.client_id);
    const draft = session.value?.draft.value ?? "";
    if (kept !== null) {
      saveDraft(draft === "" ? kept.text : `${kept.text}\n\n${draft}`);
      attachAgain(kept.parts);
    }
    focusComposer();
  };
  return (
    <div class="not-sent" role="alert">
      <p>
        <Icon name="warning" />
        <span>
          <strong>{isLater ? "Not sent yet." : "Not sent."}</strong>{" "}
          {(pending.trouble?.message ?? "The server didn't respond").replace(/[^.!?]$/, "$&.")}{" "}
          {isLater ? "It will be sent when the server accepts it." : ""}
        </span>
      </p>
      <button
        type="button"
        class="button small"
        disabled={acting.busy}
        onClick={() => acting.act(() => resend(pending.client_id))}
      >
        {isLater ? "Send now" : "Send again"}
      </button>
      <button type="button" class="button quiet small" onClick={takeBack}>
        Edit
      </button>
    </div>
  );
}

interface ToolsProps {
  readonly said: Said;
  readonly last: boolean;
  readonly onEdit: () => void;
}

function Tools({ said, last, onEdit }: ToolsProps): JSX.Element {
  const acting = useActing();
  const { entry } = said;
  // what was said to a run under way has no place of its own to begin again from
  const began = entry === null ? "" : session.value?.runs.value.get(entry.run_id)?.message_id;
  const isOwn = entry !== null && began === entry.message.message_id && !isCompaction(entry.message.text);
  return (
    <>
      <div class={`talk-tools${last ? " stay" : ""}`}>
        {entry !== null ? <Versions entry={entry} /> : null}
        <time dateTime={new Date(said.atMs).toISOString()} title={moment(said.atMs)}>
          {timeOfDay(said.atMs)}
        </time>
        <CopyButton text={() => said.text} what="message" />
        {entry !== null && !isCompaction(said.text) ? (
          <PinButton id={entry.message.message_id} what="message" acting={acting} />
        ) : null}
        {isOwn ? (
          <button
            type="button"
            class="icon-button small"
            aria-label="Edit and resend"
            title="Edit and resend"
            onClick={onEdit}
          >
            <Icon name="pencil" />
          </button>
        ) : null}
        {entry !== null ? (
          <button
            type="button"
            class="icon-button small"
            aria-label="Fork from here"
            title="Fork from here: start a new chat from this message"
            disabled={acting.busy}
            onClick={() => acting.act(() => fork(entry.seq))}
          >
            <Icon name="fork" />
          </button>
        ) : null}
      </div>
      <Problem words={acting.trouble} />
    </>
  );
}

/** The way to the other versions of a message, if there are any. */
function Versions({ entry }: { readonly entry: PersonEntry }): JSX.Element | null {
  const here = session.value;
  const versions = here && versionsOf(here, entry);
  const parts = useParts(versions !== null && versions.known.length > 1);
  return parts && versions && <parts.VersionSwitch versions={versions} />;
}

function Editing({
  entry,
  onClose,
}: {
  readonly entry: PersonEntry;
  readonly onClose: () => void;
}): JSX.Element {
  const [text, setText] = useState(entry.message.text);
  const field = useRef<HTMLTextAreaElement>(null);
  const whole = useRef<HTMLElement>(null);
  const acting = useActing();
  useFocusBack(whole);
  useLayoutEffect(() => {
    field.current?.focus();
    field.current?.setSelectionRange(text.length, text.length);
  }, []);
  const isEmpty = text.trim() === "" && entry.message.parts.length === 0;
  const save = async (): Promise<void> => {
    if (!isEmpty && (await acting.act(() => newVersion(entry, text)))) onClose();
  };
  return (
    <article ref={whole} class="person editing" aria-label="Edit your message">
      <div class="bubble">
        <Parts parts={entry.message.parts} />
        <textarea
          ref={field}
          class="grow"
          rows={Math.min(14, text.split("\n").length + 1)}
          aria-label="Message"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          dir="auto"
          onKeyDown={(event) => onEditingKey(event, save, onClose)}
        />
        <p class="muted small-words">
          The chat continues from the new text. You can switch back to this version.
        </p>
        <div class="buttons">
          <button type="button" class="button quiet small" onClick={onClose}>
            Cancel
          </button>
          <button type="button" class="button primary small" disabled={acting.busy || isEmpty} onClick={save}>
            Send
          </button>
        </div>
        <Problem words={acting.trouble} />
      </div>
    </article>
  );
}
