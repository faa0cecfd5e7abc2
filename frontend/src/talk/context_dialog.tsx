/** What the model sees: how full the window is, what was summarized, what is pinned, and the prompt cache. */
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { ContextMessage, ContextShown, ShortenedShown } from "../bodies.ts";
import { count, grouped, moment, money, percent, plural, timeOfDay } from "../format.ts";
import { Dialog } from "../frame/dialog.tsx";
import { closeDialog } from "../frame/ui.ts";
import { harmless } from "../markdown/safe.ts";
import { contextShown, readContext } from "../state/context.ts";
import { pinMessage, session } from "../state.ts";
import { useActing } from "./acting.ts";
import { Problem } from "./problem.tsx";
import { Prose } from "./prose.tsx";
import { RevertButton } from "./revert_button.tsx";

export function ContextDialog(): JSX.Element | null {
  const reading = useActing();
  const here = session.value;
  useEffect(() => {
    if (here !== null) void reading.act(() => readContext(here.id));
  }, [here?.id, here?.usage.value.input_tokens, here?.pins.value]);
  if (here === null) return null;
  const shown = contextShown.value?.session_id === here.id ? contextShown.value : null;
  return (
    <Dialog title="What the model sees" onClose={() => closeDialog("context")}>
      <Problem words={reading.trouble} />
      {shown === null ? null : (
        <div class="context">
          <Sizes shown={shown} />
          <Shortened shown={shown} />
          <Pins shown={shown} />
        </div>
      )}
    </Dialog>
  );
}

function Sizes({ shown }: { readonly shown: ContextShown }): JSX.Element {
  const { last_call: call, cache_break: broken } = shown;
  const about = shown.estimated ? "about " : "";
  return (
    <>
      <p class="context-used">
        <strong>{percent(shown.used_tokens, shown.window_tokens)}</strong> {about}
        {grouped(shown.used_tokens)} of {grouped(shown.window_tokens)} tokens
      </p>
      <meter
        aria-label="Context used"
        min={0}
        max={shown.window_tokens}
        high={shown.fit_tokens}
        value={shown.used_tokens}
      />
      <p class="fine muted">
        Above {grouped(shown.fit_tokens)} tokens, old tool results are removed or messages are summarized.
      </p>
      <dl class="context-facts">
        <dt>System text</dt>
        <dd>about {grouped(shown.system_tokens)} tokens</dd>
        <dt>{plural(shown.tools.length, "tool")}</dt>
        <dd>
          <details>
            <summary>about {grouped(shown.tools_tokens)} tokens</summary>
            {harmless(shown.tools.join(", "))}
          </details>
        </dd>
        <dt>Conversation</dt>
        <dd>about {grouped(shown.messages_tokens)} tokens</dd>
        {call ? (
          <>
            <dt>Last call</dt>
            <dd>
              {grouped(call.new_tokens)} new + {grouped(call.cached_tokens)} cached tokens in,{" "}
              {grouped(call.output_tokens)} out
            </dd>
          </>
        ) : null}
        <dt>Prompt cache</dt>
        <dd title={broken ? moment(broken.at * 1000) : ""}>
          {broken
            ? `Last broken at ${timeOfDay(broken.at * 1000)} by: ${harmless(broken.reason)}`
            : "Not broken since the first call"}
        </dd>
      </dl>
    </>
  );
}

function Shortened({ shown }: { readonly shown: ContextShown }): JSX.Element | null {
  if (shown.shortened.length === 0) return null;
  return (
    <section aria-label="Summarized or removed">
      <h3>Summarized or removed</h3>
      <ul class="context-list">
        {shown.shortened.map((one) => (
          <ShortenedItem key={one.seq} one={one} sessionId={shown.session_id} />
        ))}
      </ul>
    </section>
  );
}

interface ShortenedProps {
  readonly one: ShortenedShown;
  readonly sessionId: string;
}

function ShortenedItem({ one, sessionId }: ShortenedProps): JSX.Element {
  const { results = [], summary = "", cost_usd } = one;
  const facts = [
    timeOfDay(one.at * 1000),
    `${count(one.tokens_before)} → ${count(one.tokens_after)} tokens`,
    ...(cost_usd ? [money(cost_usd)] : []),
    ...(one.call_id ? [one.call_id] : []),
  ];
  return (
    <li>
      <div class="context-item">
        <span>{one.kind === "trimming" ? plural(results.length, "tool result") : "Summary"}</span>
        <RevertButton seq={one.seq} sessionId={sessionId} reverted={one.reverted ?? false} />
      </div>
      <p class="fine muted" title={moment(one.at * 1000)}>
        {harmless(facts.join(" · "))}
      </p>
      <details>
        <summary>{one.kind === "trimming" ? "Show results" : "Show summary"}</summary>
        {summary ? <Prose text={summary} /> : null}
        {results.map((result) => (
          <p key={result.seq} class="fine">
            {harmless(result.name)}, {grouped(result.chars)} characters
          </p>
        ))}
      </details>
    </li>
  );
}

function Pins({ shown }: { readonly shown: ContextShown }): JSX.Element {
  return (
    <section aria-label="Pinned">
      <h3>Pinned</h3>
      <p class="fine muted">
        {shown.pins.length === 0
          ? "Summaries keep pinned messages word for word. To pin one, use the pin under it."
          : `${grouped(shown.pins_tokens)} of ${grouped(shown.pins_tokens_max)} tokens`}
      </p>
      <ul class="context-list">
        {shown.pins.map((pin) => (
          <PinItem key={pin.id} pin={pin} />
        ))}
      </ul>
    </section>
  );
}

function PinItem({ pin }: { readonly pin: ContextMessage }): JSX.Element {
  const acting = useActing();
  return (
    <li class="context-item">
      <span class="context-text">
        {pin.author === "person" ? "You" : "Assistant"}: {harmless(pin.text)}
      </span>
      <span class="fine muted">{count(pin.tokens)} tokens</span>
      <button
        type="button"
        class="button quiet small"
        disabled={acting.busy}
        onClick={() => acting.act(() => pinMessage(pin.id, false))}
      >
        Unpin
      </button>
      <Problem words={acting.trouble} />
    </li>
  );
}
