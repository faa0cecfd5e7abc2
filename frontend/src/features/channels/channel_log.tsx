/** What happened in a channel lately, and a test message to see whether one arrives. */
import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import type { ChannelLogEntry } from "../../bodies.ts";
import { moment } from "../../format.ts";
import { harmless } from "../../markdown/safe.ts";
import { useRefreshed } from "../../server_panels/refreshed.ts";
import { stopped } from "../../server_panels/target_words.ts";
import type { Result } from "../../state.ts";
import { useActing } from "../../talk/acting.ts";
import { Problem } from "../../talk/problem.tsx";
import { quoted } from "../../talk/quoted.tsx";
import { readLog, sendTest } from "./requests.ts";
import { becameOf, chatsIn, type LogLine, linesOf } from "./words.ts";

const EVERY_MS = 2000;

interface ChannelLogProps {
  readonly name: string;
  readonly canTest: boolean;
}

/** The log is read only while someone looks at it. */
export function ChannelLog({ name, canTest }: ChannelLogProps): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <details class="trigger-history" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{canTest ? "Log and test message" : "Log"}</summary>
      {open ? <OpenLog name={name} canTest={canTest} /> : null}
    </details>
  );
}

function OpenLog({ name, canTest }: ChannelLogProps): JSX.Element {
  const log = useRefreshed(`log of ${name}`, () => readLog(name), EVERY_MS);
  const lines = linesOf(log.value ?? []);
  return (
    <>
      {canTest ? <TestForm name={name} entries={log.value ?? []} onSent={log.reload} /> : null}
      <Problem words={log.trouble} />
      {log.value !== null && lines.length === 0 ? <p class="muted">Nothing yet.</p> : null}
      <ol class="channel-log" aria-label={`Log of ${name}`}>
        {lines.map((line) => (
          <Line key={line.key} line={line} />
        ))}
      </ol>
    </>
  );
}

function Line({ line }: { readonly line: LogLine }): JSX.Element {
  return (
    <li class={line.kind}>
      <time class="muted">{moment(1000 * line.atS)}</time>
      <span>
        <span class={line.kind === "silent" ? "channel-failed" : ""}>{harmless(line.words)}</span>
        {line.where ? <span class="muted"> · {harmless(line.where)}</span> : null}
        {line.why ? <span class="fine">{quoted(stopped(harmless(line.why)))}</span> : null}
      </span>
    </li>
  );
}

interface TestFormProps {
  readonly name: string;
  readonly entries: readonly ChannelLogEntry[];
  readonly onSent: () => void;
}

function TestForm({ name, entries, onSent }: TestFormProps): JSX.Element {
  const acting = useActing();
  const id = useId();
  const [chat, setChat] = useState("");
  const [delivery, setDelivery] = useState("");
  const send = async (): Promise<Result<unknown>> => {
    setDelivery("");
    const sent = await sendTest(name, chat.trim());
    if (sent.ok) setDelivery(sent.value.delivery);
    onSent();
    return sent;
  };
  const became = delivery ? becameOf(entries, delivery) : null;
  return (
    <form
      class="channel-test"
      aria-label={`Test ${name}`}
      onSubmit={(event) => {
        event.preventDefault();
        void acting.act(send);
      }}
    >
      <label for={id}>Chat</label>
      <input
        id={id}
        class="field"
        list={`${id}-known`}
        value={chat}
        maxLength={200}
        required
        onInput={(event) => setChat(event.currentTarget.value)}
      />
      <datalist id={`${id}-known`}>
        {chatsIn(entries).map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <button type="submit" class="button small" aria-disabled={acting.busy}>
        Send a test message
      </button>
      <div role="status">
        {delivery === "" ? null : became === null ? "Queued" : became.words}
        {became?.why ? quoted(`: ${stopped(harmless(became.why))}`) : ""}
      </div>
      <Problem words={acting.trouble} />
    </form>
  );
}
