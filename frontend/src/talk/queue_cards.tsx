/** Messages queued behind the current run: edit them, remove them, or send them sooner. */
import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { plural } from "../format.ts";
import { Icon } from "../icons.tsx";
import { harmless } from "../markdown/safe.ts";
import { type Message, type OpenSession, queue } from "../state.ts";
import { type ActivityName, newActivity, stateOf } from "../view/activity.ts";
import { useActing } from "./acting.ts";
import { useFocusBack } from "./focus.ts";
import { Problem } from "./problem.tsx";
import { onEditingKey } from "./send_key.ts";

interface QueueCardsProps {
  readonly here: OpenSession;
  readonly cards: readonly Message[];
}

export function QueueCards({ here, cards }: QueueCardsProps): JSX.Element {
  const acting = useActing();
  const paused = here.queuePaused.value;
  return (
    <section class="queue" aria-label="Queued messages">
      {paused ? (
        <div class="queue-paused">
          <Icon name="pause" />
          <span>
            <strong>Paused.</strong> {plural(cards.length, "message")} waiting.
          </span>
          <button
            type="button"
            class="button primary small"
            disabled={acting.busy}
            onClick={() => acting.act(queue.resume)}
          >
            Resume
          </button>
          <button
            type="button"
            class="button quiet small"
            disabled={acting.busy}
            onClick={() => acting.act(queue.clear)}
          >
            Clear
          </button>
        </div>
      ) : null}
      <Problem words={acting.trouble} />
      <ul>
        {cards.map((message, at) => (
          <li key={message.message_id}>
            <Card message={message} here={here} first={at === 0} />
          </li>
        ))}
      </ul>
    </section>
  );
}

const NEXT_STEP = "The agent reads it at its next step";
/** When the agent reads what is said to it while it waits for someone. */
const READ: Readonly<Partial<Record<ActivityName, string>>> = {
  client: "The agent reads it after the client runs its tools",
  approval: "The agent reads it after you answer the request",
  question: "The agent reads it after you answer the question",
};

interface CardProps {
  readonly message: Message;
  readonly here: OpenSession;
  readonly first: boolean;
}

function Card({ message, here, first }: CardProps): JSX.Element {
  const [editing, setEditing] = useState(false);
  const acting = useActing();
  const steering = message.state === "steering";
  const runs = here.currentRun.value !== null;
  if (editing) return <Editing message={message} onClose={() => setEditing(false)} />;
  return (
    <div class={`queue-card${steering ? " steering" : ""}`}>
      <Icon name={steering ? "send" : "clock"} />
      <div class="queue-words">
        <p class="queue-text" dir="auto">
          {harmless(message.text) || `${plural(message.parts.length, "attachment")}`}
        </p>
        <p class="muted small-words">
          {steering
            ? READ[stateOf(here.currentRun.value?.activity ?? newActivity("between"))[0]] || NEXT_STEP
            : first
              ? runs
                ? "Next, when this run ends"
                : "Next"
              : "Queued"}
        </p>
        <Problem words={acting.trouble} />
      </div>
      <div class="queue-buttons">
        {runs && !steering ? (
          <>
            <Small
              name="bolt"
              words="Steer now: the agent reads it at its next step"
              busy={acting.busy}
              onClick={() => acting.act(() => queue.steerNow(message))}
            />
            <Small
              name="swap"
              words="Stop the run and send this"
              busy={acting.busy}
              onClick={() => acting.act(() => queue.stopAndSend(message))}
            />
          </>
        ) : null}
        <Small name="pencil" words="Edit this message" busy={acting.busy} onClick={() => setEditing(true)} />
        <Small
          name="close"
          words="Remove this message"
          busy={acting.busy}
          onClick={() => acting.act(() => queue.remove(message))}
        />
      </div>
    </div>
  );
}

interface SmallProps {
  readonly name: "bolt" | "swap" | "pencil" | "close";
  readonly words: string;
  readonly busy: boolean;
  readonly onClick: () => void;
}

function Small({ name, words, busy, onClick }: SmallProps): JSX.Element {
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={words}
      title={words}
      disabled={busy}
      onClick={onClick}
    >
      <Icon name={name} />
    </button>
  );
}

function Editing({
  message,
  onClose,
}: {
  readonly message: Message;
  readonly onClose: () => void;
}): JSX.Element {
  const [text, setText] = useState(message.text);
  const field = useRef<HTMLTextAreaElement>(null);
  const whole = useRef<HTMLDivElement>(null);
  const acting = useActing();
  useFocusBack(whole);
  useLayoutEffect(() => field.current?.focus(), []);
  const save = async (): Promise<void> => {
    if (text.trim() === "") return;
    if (text === message.text || (await acting.act(() => queue.edit(message, text)))) onClose();
  };
  return (
    <div ref={whole} class="queue-card editing">
      <div class="queue-words">
        <textarea
          ref={field}
          rows={Math.min(8, text.split("\n").length + 1)}
          aria-label="Queued message"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          dir="auto"
          onKeyDown={(event) => onEditingKey(event, save, onClose)}
        />
        <Problem words={acting.trouble} />
        <div class="buttons">
          <button type="button" class="button quiet small" onClick={onClose}>
            Cancel
          </button>
          <button
            type="button"
            class="button primary small"
            disabled={acting.busy || text.trim() === ""}
            onClick={save}
          >
            Save
          </button>
        </div>
      </div>
    </div>
  );
}
