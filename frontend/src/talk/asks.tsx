/** What waits for a person: one card at a time, above the composer. */
// Needs what the queue needs: otherwise the build cuts the first load into more pieces, which compress worse.
import "./send_key.ts";
import type { JSX, TargetedKeyboardEvent } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { PlanStep, Width } from "../events.ts";
import { countdown } from "../format.ts";
import { Icon } from "../icons.tsx";
import { hint, isComposing, isMac } from "../keys.ts";
import {
  type AskEntry,
  answerAsk,
  childAsks,
  loadFamily,
  nowMs,
  type OpenSession,
  type ToolEntry,
  wantedAsk,
} from "../state.ts";
import { useActing } from "./acting.ts";
import { ApprovalCard, approvalKeys, type Step, upTo } from "./approval_card.tsx";
import { ASKS } from "./ask_words.ts";
import { useFocusBack } from "./focus.ts";
import { Problem } from "./problem.tsx";
import { QuestionCard } from "./question_card.tsx";

// a new card must not take a click that was meant for what was there before
const ARMED_AFTER_MS = 400;

export function Asks({ here }: { readonly here: OpenSession }): JSX.Element | null {
  const asks = [...here.openAsks.value, ...childAsks.value.map(({ card }) => card)];
  const [chosen, setChosen] = useState("");
  const wanted = asks.find((ask) => ask.ask_id === wantedAsk.value)?.ask_id;
  useLayoutEffect(() => {
    if (wanted !== undefined) setChosen(wanted);
  }, [wanted]);
  const at = Math.max(
    0,
    asks.findIndex((ask) => ask.ask_id === chosen),
  );
  const ask = asks[at];
  if (ask === undefined) return null;
  const step = (by: number) => (): void =>
    setChosen(asks[(at + by + asks.length) % asks.length]?.ask_id ?? "");
  const place =
    asks.length === 1 ? null : (
      <span class="ask-place">
        <button type="button" class="icon-button small" aria-label="Previous" onClick={step(-1)}>
          <Icon name="back" />
        </button>
        {at + 1} of {asks.length}
        <button type="button" class="icon-button small" aria-label="Next" onClick={step(1)}>
          <Icon name="chevron" />
        </button>
      </span>
    );
  return <AskCard key={ask.ask_id} ask={ask} here={here} place={place} />;
}

/** What the part of a card that differs by kind needs. */
export interface AskBodyProps {
  readonly ask: AskEntry;
  /** What the tool that asks is given. */
  readonly args: ToolEntry["args"] | undefined;
  readonly disabled: boolean;
  readonly onAnswer: (answer: string, reason?: string, width?: Width, steps?: readonly PlanStep[]) => void;
}

interface AskCardProps {
  readonly ask: AskEntry;
  readonly here: OpenSession;
  readonly place: JSX.Element | null;
}

/** Whether a card has been there long enough to be pressed. */
export function useArmed(): boolean {
  const [armed, setArmed] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setArmed(true), ARMED_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
  return armed;
}

function AskCard({ ask, here, place }: AskCardProps): JSX.Element {
  const armed = useArmed();
  const acting = useActing();
  const { title, icon } = ASKS[ask.ask];
  // what a sub-agent asks is answered here by the same id
  const child = childAsks.value.find(({ card }) => card.ask_id === ask.ask_id);
  const [step, setStep] = useState<Step>("choose");
  const body: AskBodyProps = {
    ask,
    args: child?.args ?? here.runs.value.get(ask.run_id)?.tools.get(ask.tool_call_id)?.args,
    disabled: !armed || acting.busy,
    onAnswer: (answer, reason, width, steps) =>
      void acting.act(() => answerAsk(ask, answer, reason, width, steps)).then(loadFamily),
  };
  const card = useRef<HTMLElement>(null);
  useFocusBack(card);
  useWantedFocus(card, ask.ask_id);
  return (
    <section
      ref={card}
      class={`ask ${ask.ask}`}
      aria-label={title}
      aria-keyshortcuts="Alt+A"
      tabIndex={-1}
      onKeyDown={onCardKey}
    >
      <header class="ask-head">
        <Icon name={icon} />
        <h2>{child === undefined ? title : `${child.name}: ${title}`}</h2>
        <span class="ask-keys for-keyboards">
          <kbd>{hint("answer", isMac)}</kbd>
          <span>{ask.ask === "approval" ? approvalKeys(ask, step) : questionKeys(ask)}</span>
        </span>
        <Countdown untilMs={ask.expires_at_ms} />
        {place}
      </header>
      {ask.ask === "approval" ? (
        <ApprovalCard {...body} step={step} onStep={setStep} />
      ) : (
        <QuestionCard {...body} />
      )}
      <Problem words={acting.trouble} />
    </section>
  );
}

/** Takes the focus when someone asked for this very card: at once, so that the next key is for it. */
function useWantedFocus(card: { readonly current: HTMLElement | null }, askId: string): void {
  const isWanted = wantedAsk.value === askId;
  useLayoutEffect(() => {
    if (!isWanted) return;
    wantedAsk.value = "";
    card.current?.focus();
  }, [isWanted]);
}

function questionKeys({ choices }: AskEntry): string {
  return choices.length === 0 ? "" : `${upTo(choices.length)} choose`;
}

/** Keys while the card has the focus: each is a click on one of its buttons, and Enter is none of them. */
export function onCardKey(event: TargetedKeyboardEvent<HTMLElement>): void {
  const { key, target, currentTarget: card } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || isComposing(event)) return;
  const isTyping = target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
  if (isTyping && key !== "Escape") return;
  const button = buttonFor(card, key.toLowerCase());
  // elsewhere on the page N begins a new chat, which nobody means who is asked something
  if (!button && !/^[yn]$/i.test(key)) return;
  event.preventDefault();
  button?.click();
}

function buttonFor(card: HTMLElement, key: string): HTMLButtonElement | null | undefined {
  if (/^[1-9]$/.test(key))
    return card.querySelectorAll<HTMLButtonElement>("button.numbered")[Number(key) - 1];
  return [...card.querySelectorAll<HTMLButtonElement>("[data-key]")].find(
    (button) => button.dataset.key === key,
  );
}

function Countdown({ untilMs }: { readonly untilMs: number }): JSX.Element | null {
  if (untilMs === 0) return null;
  const leftMs = untilMs - nowMs.value;
  return (
    <span
      class={`countdown${leftMs < 60_000 ? " tone-warn" : ""}`}
      title="Expires if no one answers in time."
    >
      {countdown(leftMs)} left
    </span>
  );
}
