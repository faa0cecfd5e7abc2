/** Lets a person in: by a code that they send to the bot, or by their id. */
import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import type { ChannelShown } from "../../bodies.ts";
import { countdown } from "../../format.ts";
import { Icon } from "../../icons.tsx";
import { harmless } from "../../markdown/safe.ts";
import { nowMs, type Result } from "../../state.ts";
import { useActing } from "../../talk/acting.ts";
import { CopyButton } from "../../talk/copy_button.tsx";
import { Problem } from "../../talk/problem.tsx";
import { allow, makeCode } from "./requests.ts";
import { pairedIn } from "./words.ts";

interface Code {
  readonly code: string;
  readonly endsMs: number;
  /** Who had been let in by a code when this one was made. */
  readonly before: ReadonlyMap<string, string>;
}

interface LettingInProps {
  readonly channel: ChannelShown;
  readonly onChanged: () => void;
}

export function LettingIn({ channel, onChanged }: LettingInProps): JSX.Element {
  const { name } = channel;
  const acting = useActing();
  const [code, setCode] = useState<Code | null>(null);
  const [byId, setById] = useState(false);
  const pair = async (): Promise<Result<unknown>> => {
    const made = await makeCode(name);
    if (made.ok) {
      const endsMs = Date.now() + 1000 * made.value.expires_in_s;
      setCode({ code: made.value.code, endsMs, before: pairedIn(channel) });
    }
    return made;
  };
  return (
    <>
      <div class="target-try">
        <button
          type="button"
          class="button small"
          aria-disabled={acting.busy}
          onClick={() => void acting.act(pair)}
        >
          <Icon name="link" />
          Pair<span class="unseen"> a person with {name}</span>
        </button>
        <button type="button" class="button small" aria-expanded={byId} onClick={() => setById(!byId)}>
          <Icon name="plus" />
          Allow by ID<span class="unseen"> in {name}</span>
        </button>
        <Problem words={acting.trouble} />
      </div>
      {code === null ? null : <CodeCard code={code} channel={channel} onDone={() => setCode(null)} />}
      {byId ? (
        <AllowForm
          name={name}
          onDone={() => {
            setById(false);
            onChanged();
          }}
        />
      ) : null}
    </>
  );
}

interface CodeCardProps {
  readonly code: Code;
  readonly channel: ChannelShown;
  readonly onDone: () => void;
}

function CodeCard({ code, channel, onDone }: CodeCardProps): JSX.Element {
  const left = code.endsMs - nowMs.value;
  const paired = [...pairedIn(channel)].find(([key]) => !code.before.has(key));
  return (
    <section class="target secret-card" aria-label="Pairing code">
      <p role="status">
        {paired ? `${harmless(paired[1])} is paired. Create another code for the next person.` : ""}
      </p>
      {paired ? null : left > 0 ? (
        <>
          <p>
            Send this code to the bot as a separate message. The first person to send it can talk to the agent
            and approve actions. You won't see it again.
          </p>
          <p>
            <code class="channel-code">{code.code}</code> <CopyButton text={() => code.code} what="code" />
          </p>
          <p class="fine muted">
            <time>{countdown(left)}</time> left
          </p>
          {channel.state === "connected" ? null : (
            <p class="warned">The channel isn't connected, so no one can use the code yet.</p>
          )}
        </>
      ) : (
        <p>The code has expired.</p>
      )}
      <div class="target-try">
        <button type="button" class="button small" onClick={onDone}>
          Done
        </button>
      </div>
    </section>
  );
}

interface AllowFormProps {
  readonly name: string;
  readonly onDone: () => void;
}

function AllowForm({ name, onDone }: AllowFormProps): JSX.Element {
  const acting = useActing();
  const id = useId();
  const [user, setUser] = useState("");
  const [approves, setApproves] = useState(false);
  const save = async (): Promise<void> => {
    if (await acting.act(() => allow(name, user.trim(), approves ? "approver" : "user"))) onDone();
  };
  return (
    <form
      class="trigger-form"
      aria-label={`Allow a person in ${name}`}
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <div class="form-line">
        <label for={id}>User ID on the platform. The log shows it once they've messaged the bot.</label>
        <input
          id={id}
          class="field"
          value={user}
          maxLength={64}
          required
          onInput={(event) => setUser(event.currentTarget.value)}
        />
      </div>
      <label class="channel-check">
        <input
          type="checkbox"
          checked={approves}
          onChange={(event) => setApproves(event.currentTarget.checked)}
        />
        Can also approve actions
      </label>
      <div class="target-try">
        <button type="submit" class="button small" aria-disabled={acting.busy}>
          Allow
        </button>
        <Problem words={acting.trouble} />
      </div>
    </form>
  );
}
