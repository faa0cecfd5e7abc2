/** An approval: the one exact action, everything that was found about it, and four ways to decide. */
import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Choice, GrantOffer, Width } from "../events.ts";
import { PlanEditor } from "../features/plans/plan_card.tsx";
import { Icon } from "../icons.tsx";
import { languageOf } from "../markdown/languages.ts";
import { exact } from "../markdown/safe.ts";
import { type AskEntry, may } from "../state.ts";
import type { AskBodyProps } from "./asks.tsx";
import { ShadedText } from "./code_block.tsx";
import { quoted } from "./quoted.tsx";
import { RuleText } from "./rule_text.tsx";
import { toolIcon } from "./tool_words.ts";

/** How far a person has come: to the four choices, to a reason, or to the rules that they could store. */
export type Step = "choose" | "deny" | "session" | "always";

interface ApprovalProps extends AskBodyProps {
  readonly step: Step;
  readonly onStep: (step: Step) => void;
}

/** The keys that work at this step, in words. */
export function approvalKeys(ask: AskEntry, step: Step): string {
  if (step === "deny") return "Enter deny · Esc back";
  if (ask.action?.tool === "update_plan") return "Y accept · N reject";
  if (step !== "choose") return `${upTo(ask.offers.length)} choose · Esc back`;
  return `Y allow once · N deny · ${upTo(waysToAllow(ask).length + 1)} choose`;
}

export function upTo(last: number): string {
  return last === 1 ? "1" : `1–${Math.min(last, 9)}`;
}

/** Denying is always possible. */
function waysToAllow(ask: AskEntry): readonly string[] {
  return ask.choices.filter((choice) => choice === "once" || (choice !== "deny" && ask.offers.length > 0));
}

export function ApprovalCard({ ask, args, disabled, onAnswer, step, onStep }: ApprovalProps): JSX.Element {
  const go = (next: Step) => (event: Event) => {
    // the button goes with its step, and would take the focus with it
    if (event.currentTarget instanceof HTMLElement)
      event.currentTarget.closest<HTMLElement>('[tabindex="-1"]')?.focus();
    onStep(next);
  };
  const isPlan = ask.action?.tool === "update_plan";
  const findings = (
    <ul class="findings" aria-label="Findings">
      {ask.findings.map((finding) => (
        <li key={finding}>
          <Icon name="warning" />
          <span>{quoted(exact(finding))}</span>
        </li>
      ))}
    </ul>
  );
  return (
    <>
      {ask.headline ? <p class="headline">{exact(ask.headline)}</p> : null}
      {isPlan ? null : <Exactly ask={ask} args={args} />}
      {ask.findings.length === 0 ? null : ask.headline ? (
        <details class="small-words">
          <summary>Details</summary>
          {findings}
        </details>
      ) : (
        findings
      )}
      {ask.once_because ? <p class="small-words muted">{ask.once_because}</p> : null}
      {may("approve") ? null : (
        <p>Your key can't approve actions. Ask someone whose key has the “approve” scope.</p>
      )}
      {isPlan && step === "choose" && may("approve") ? (
        <PlanEditor
          args={args}
          disabled={disabled}
          onAccept={(steps) => onAnswer("once", "", undefined, steps)}
          onReject={go("deny")}
        />
      ) : null}
      {!isPlan && step === "choose" && may("approve") ? (
        <Choices ask={ask} disabled={disabled} onDecide={onAnswer} go={go} />
      ) : null}
      {step === "deny" ? (
        <Deny disabled={disabled} onDeny={(reason) => onAnswer("deny", reason)} onBack={go("choose")} />
      ) : null}
      {step === "session" || step === "always" ? (
        <Offers
          choice={step}
          offers={ask.offers}
          disabled={disabled}
          onDecide={(width) => onAnswer(step, "", width)}
          onBack={go("choose")}
        />
      ) : null}
    </>
  );
}

/** What would be done, to the letter. */
function Exactly({ ask, args = {} }: Pick<AskBodyProps, "ask" | "args">): JSX.Element | null {
  const { action } = ask;
  if (action === null) return null;
  const command = typeof args.command === "string" ? args.command : "";
  const others = Object.entries(args).filter(([name]) => name !== "command");
  // a summary is in the words of the tool, arguments are what it is given
  const text = command || (others.length > 0 ? JSON.stringify(args, null, 2) : action.summary);
  const whole = (
    <ShadedText
      text={exact(text)}
      language={languageOf(command ? "bash" : "json").language}
      label="Exact action"
    />
  );
  return (
    <div class="exactly">
      <p class="exactly-tool">
        <Icon name={toolIcon(action.tool)} />
        <strong>{exact(action.tool)}</strong>
        {action.host ? <span class="muted">{exact(action.host)}</span> : null}
        <span class="muted">
          {command && action.paths?.length ? "in " : ""}
          {(action.paths ?? []).map(exact).join(", ")}
        </span>
      </p>
      {action.diff ? (
        <ShadedText text={exact(action.diff)} language={languageOf("diff").language} label="Changes" />
      ) : action.tool === "schedule" ? (
        // the arguments don't say when that is
        <>
          <ShadedText text={exact(action.summary)} language={languageOf("text").language} label="Schedule" />
          <details class="small-words">
            <summary>Exact arguments</summary>
            {whole}
          </details>
        </>
      ) : (
        whole
      )}
      {command && others.length > 0 ? (
        <p class="small-words muted">
          {exact(others.map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join(" · "))}
        </p>
      ) : null}
    </div>
  );
}

interface ChoicesProps {
  readonly ask: AskEntry;
  readonly disabled: boolean;
  readonly onDecide: (choice: Choice) => void;
  readonly go: (step: Step) => (event: Event) => void;
}

function Choices({ ask, disabled, onDecide, go }: ChoicesProps): JSX.Element {
  const offered = waysToAllow(ask);
  return (
    <div class="buttons">
      {offered.includes("once") ? (
        <button
          type="button"
          class="button primary numbered"
          data-key="y"
          disabled={disabled}
          onClick={() => onDecide("once")}
        >
          Allow once
        </button>
      ) : null}
      {offered.includes("session") ? (
        <button type="button" class="button numbered" disabled={disabled} onClick={go("session")}>
          In this chat…
        </button>
      ) : null}
      {offered.includes("always") ? (
        <button type="button" class="button numbered" disabled={disabled} onClick={go("always")}>
          Always…
        </button>
      ) : null}
      <span class="spread" />
      <button
        type="button"
        class="button danger numbered"
        data-key="n"
        disabled={disabled}
        onClick={go("deny")}
      >
        Deny…
      </button>
    </div>
  );
}

interface DenyProps {
  readonly disabled: boolean;
  readonly onDeny: (reason: string) => void;
  readonly onBack: (event: Event) => void;
}

function Deny({ disabled, onDeny, onBack }: DenyProps): JSX.Element {
  const [reason, setReason] = useState("");
  const field = useRef<HTMLInputElement>(null);
  // the step was asked for by a key or a click on this very card
  useLayoutEffect(() => field.current?.focus(), []);
  return (
    <form
      class="step"
      onSubmit={(event) => {
        event.preventDefault();
        if (!disabled) onDeny(reason.trim());
      }}
    >
      <label>
        <span>Reason (optional, sent to the model)</span>
        <input
          ref={field}
          class="field"
          value={reason}
          maxLength={500}
          onInput={(event) => setReason(event.currentTarget.value)}
        />
      </label>
      <div class="buttons">
        <button type="button" class="button quiet" data-key="escape" onClick={onBack}>
          Back
        </button>
        <span class="spread" />
        <button type="submit" class="button danger" disabled={disabled}>
          Deny
        </button>
      </div>
    </form>
  );
}

interface OffersProps {
  readonly choice: "session" | "always";
  readonly offers: readonly GrantOffer[];
  readonly disabled: boolean;
  readonly onDecide: (width: Width) => void;
  readonly onBack: (event: Event) => void;
}

/** The rules before one is stored: what would not be asked about any more. */
function Offers({ choice, offers, disabled, onDecide, onBack }: OffersProps): JSX.Element {
  const inChat = choice === "session";
  return (
    <div class="step">
      <p>
        Allow without asking <strong>{inChat ? "in this chat" : "in every chat"}</strong>:
      </p>
      {offers.map((offer, nth) => {
        const { width = "exact" } = offer.rule;
        const what = width === "exact" ? "" : " similar";
        return (
          <>
            <RuleText rule={offer.rule} offer={offer} />
            <div class="buttons">
              {nth === offers.length - 1 ? (
                <button type="button" class="button quiet" data-key="escape" onClick={onBack}>
                  Back
                </button>
              ) : null}
              <span class="spread" />
              <button
                type="button"
                class={`button numbered${what ? "" : " primary"}`}
                disabled={disabled}
                onClick={() => onDecide(width)}
              >
                {inChat ? `Allow${what} in this chat` : `Always allow${what}`}
              </button>
            </div>
          </>
        );
      })}
    </div>
  );
}
