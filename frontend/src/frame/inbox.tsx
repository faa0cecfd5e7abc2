/** The inbox: what waits for a person in any chat, the oldest first, and answered here. An approval is opened first:
 * then the exact action comes from the log of its chat.
 */
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Result } from "../api.ts";
import type { OpenApproval } from "../bodies.ts";
import { Proposals } from "../features/memory/proposals.tsx";
import { ago, countdown } from "../format.ts";
import { Icon } from "../icons.tsx";
import { exact, harmless } from "../markdown/safe.ts";
import {
  answerAsk,
  askIdOf,
  type ExactAsk,
  exactAsk,
  inbox,
  loadInbox,
  needsYou,
  nowMs,
  type OpenAsk,
  proposals,
  questionCard,
} from "../state.ts";
import { useActing } from "../talk/acting.ts";
import { ApprovalCard, approvalKeys, type Step } from "../talk/approval_card.tsx";
import { ASKS } from "../talk/ask_words.ts";
import { onCardKey, useArmed } from "../talk/asks.tsx";
import { useFocusBack } from "../talk/focus.ts";
import { Problem } from "../talk/problem.tsx";
import { QuestionCard } from "../talk/question_card.tsx";
import { oneLine } from "../talk/tool_words.ts";
import { showAsk } from "./commands.ts";
import { Dialog } from "./dialog.tsx";
import { originOf } from "./origin.ts";
import { UNTITLED } from "./session_row.tsx";
import { closeDialog } from "./ui.ts";

const close = (): void => closeDialog("inbox");

export function Inbox(): JSX.Element {
  useEffect(() => void loadInbox(), []);
  const asks = inbox.value;
  return (
    <Dialog title="Inbox" onClose={close}>
      {asks.length + proposals.value.length === 0 ? <p class="muted">Nothing is waiting for you.</p> : null}
      <ul class="inbox" aria-label="Waiting for you">
        {asks.map((ask) => (
          <InboxItem key={askIdOf(ask)} ask={ask} />
        ))}
      </ul>
      {needsYou.value > asks.length && asks.length > 0 ? (
        <p class="muted">And {needsYou.value - asks.length} more.</p>
      ) : null}
      <Proposals open={proposals.value} />
    </Dialog>
  );
}

function InboxItem({ ask }: { readonly ask: OpenAsk }): JSX.Element {
  const shownId = ask.root_session_id || ask.session_id;
  const { icon, title } = ASKS[ask.kind];
  const asked = ago(ask.asked_at * 1000, nowMs.value);
  const item = useRef<HTMLLIElement>(null);
  useFocusBack(item);
  return (
    <li ref={item} class="inbox-item" onKeyDown={onCardKey}>
      <p class="inbox-head">
        <Icon name={icon} title={title} />
        <strong>{harmless(ask.title ?? "") || UNTITLED}</strong>
        <span class="muted">{originOf({ source: ask.source ?? "" })}</span>
        <span class="muted">{asked === "now" ? "just now" : `${asked} ago`}</span>
        <span class="spread" />
        {ask.expires_at === null ? null : (
          <span class="muted">{countdown(ask.expires_at * 1000 - nowMs.value)} left</span>
        )}
      </p>
      {ask.kind === "question" ? <Question ask={ask} /> : <Approval ask={ask} />}
      <button
        type="button"
        class="button small"
        onClick={() => {
          close();
          showAsk(shownId, askIdOf(ask));
        }}
      >
        Open chat
      </button>
    </li>
  );
}

function Question({ ask }: { readonly ask: Extract<OpenAsk, { kind: "question" }> }): JSX.Element {
  const acting = useActing();
  const entry = questionCard(ask);
  return (
    <>
      <QuestionCard
        ask={entry}
        disabled={acting.busy}
        onAnswer={(answer) => void acting.act(() => answerAsk(entry, answer))}
      />
      <Problem words={acting.trouble} />
    </>
  );
}

/** In one line at first; what can be approved is the exact action, once it is there. */
function Approval({ ask }: { readonly ask: OpenApproval }): JSX.Element {
  const acting = useActing();
  const [exactly, setExactly] = useState<ExactAsk | null>(null);
  const review = async (): Promise<Result<unknown>> => {
    const result = await exactAsk(ask);
    if (result.ok) setExactly(result.value);
    return result;
  };
  if (exactly !== null) return <OpenedApproval exactly={exactly} />;
  return (
    <>
      <p class="inbox-action">
        <code>{oneLine(exact(ask.command || ask.action.summary))}</code>
      </p>
      <button
        type="button"
        class="button small primary"
        disabled={acting.busy}
        onClick={() => void acting.act(review)}
      >
        Review
      </button>
      <Problem words={acting.trouble} />
    </>
  );
}

function OpenedApproval({ exactly: { card, args } }: { readonly exactly: ExactAsk }): JSX.Element {
  const acting = useActing();
  const armed = useArmed();
  const [step, setStep] = useState<Step>("choose");
  const body = useRef<HTMLDivElement>(null);
  // the button that opened it is gone
  useLayoutEffect(() => body.current?.focus(), []);
  return (
    <div ref={body} class="inbox-approval" role="group" aria-label="Approval needed" tabIndex={-1}>
      <p class="card-keys for-keyboards">{approvalKeys(card, step)}</p>
      <ApprovalCard
        ask={card}
        args={args}
        disabled={!armed || acting.busy}
        onAnswer={(answer, reason, width, steps) =>
          void acting.act(() => answerAsk(card, answer, reason, width, steps))
        }
        step={step}
        onStep={setStep}
      />
      <Problem words={acting.trouble} />
    </div>
  );
}
