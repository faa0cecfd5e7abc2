/** An approval: the one exact action, everything that was found about it, and four ways to decide. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Choice, GrantRule } from "../events.ts";
import { Icon } from "../icons.tsx";
import { languageOf } from "../markdown/languages.ts";
import { exact } from "../markdown/safe.ts";
import { type AskEntry, may, type OpenSession, ruleOf } from "../state.ts";
import type { AskBodyProps } from "./asks.tsx";
import { ShadedText } from "./code_block.tsx";
import { RuleText } from "./rule_text.tsx";
import { toolIcon } from "./tool_words.ts";

type Step =
  | { readonly kind: "choose" }
  | { readonly kind: "deny" }
  | { readonly kind: "rule"; readonly choice: "session" | "always"; readonly rule: GrantRule | null };

export function ApprovalCard({ ask, here, acting, disabled, onAnswer }: AskBodyProps): JSX.Element {
  const [step, setStep] = useState<Step>({ kind: "choose" });
  const showRule = (choice: "session" | "always"): void =>
    void acting.act(async () => {
      const result = await ruleOf(ask, choice);
      if (result.ok) setStep({ kind: "rule", choice, rule: result.value.rule });
      return result;
    });
  const back = (): void => setStep({ kind: "choose" });
  return (
    <>
      <Exactly ask={ask} here={here} />
      {ask.findings.length === 0 ? null : (
        <ul class="findings" aria-label="Findings">
          {ask.findings.map((finding) => (
            <li key={finding}>
              <Icon name="warning" />
              <span>{quoted(exact(finding))}</span>
            </li>
          ))}
        </ul>
      )}
      {may("approve") ? null : (
        <p>Your key can't approve actions. Ask someone whose key has the “approve” scope.</p>
      )}
      {step.kind === "choose" && may("approve") ? (
        <Choices
          ask={ask}
          disabled={disabled}
          onDecide={onAnswer}
          onRule={showRule}
          onDeny={() => setStep({ kind: "deny" })}
        />
      ) : null}
      {step.kind === "deny" ? (
        <Deny disabled={disabled} onDeny={(reason) => onAnswer("deny", reason)} onBack={back} />
      ) : null}
      {step.kind === "rule" ? (
        <Rule choice={step.choice} rule={step.rule} disabled={disabled} onDecide={onAnswer} onBack={back} />
      ) : null}
    </>
  );
}

/** What would be done, to the letter. */
function Exactly({ ask, here }: { readonly ask: AskEntry; readonly here: OpenSession }): JSX.Element | null {
  const { action } = ask;
  if (action === null) return null;
  const tool = here.runs.value.get(ask.run_id)?.tools.get(ask.tool_call_id);
  const command = typeof tool?.args.command === "string" ? tool.args.command : "";
  const others = Object.entries(tool?.args ?? {}).filter(([name]) => name !== "command");
  // a summary is in the words of the tool, arguments are what it is given
  const text = command || (others.length > 0 ? JSON.stringify(tool?.args, null, 2) : action.summary);
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
      ) : (
        <ShadedText
          text={exact(text)}
          language={languageOf(command ? "bash" : "json").language}
          label="Exact action"
        />
      )}
      {command && others.length > 0 ? (
        <p class="small-words muted">
          {exact(others.map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join(" · "))}
        </p>
      ) : null}
    </div>
  );
}

/** Shows text between backticks as code. */
function quoted(words: string): ComponentChildren[] {
  return words
    .split("`")
    .map((part, at, all) => (at % 2 === 1 && at < all.length - 1 ? <code key={at}>{part}</code> : part));
}

interface ChoicesProps {
  readonly ask: AskEntry;
  readonly disabled: boolean;
  readonly onDecide: (choice: Choice) => void;
  readonly onRule: (choice: "session" | "always") => void;
  readonly onDeny: () => void;
}

function Choices({ ask, disabled, onDecide, onRule, onDeny }: ChoicesProps): JSX.Element {
  const offered = (choice: Choice): boolean => ask.choices.includes(choice);
  return (
    <div class="buttons">
      {offered("once") ? (
        <button type="button" class="button primary" disabled={disabled} onClick={() => onDecide("once")}>
          Allow once
        </button>
      ) : null}
      {offered("session") ? (
        <button type="button" class="button" disabled={disabled} onClick={() => onRule("session")}>
          In this chat…
        </button>
      ) : null}
      {offered("always") ? (
        <button type="button" class="button" disabled={disabled} onClick={() => onRule("always")}>
          Always…
        </button>
      ) : null}
      <span class="spread" />
      <button type="button" class="button danger" disabled={disabled} onClick={onDeny}>
        Deny…
      </button>
    </div>
  );
}

interface DenyProps {
  readonly disabled: boolean;
  readonly onDeny: (reason: string) => void;
  readonly onBack: () => void;
}

function Deny({ disabled, onDeny, onBack }: DenyProps): JSX.Element {
  const [reason, setReason] = useState("");
  const field = useRef<HTMLInputElement>(null);
  // the step was asked for by a key or a click on this very card
  useEffect(() => field.current?.focus(), []);
  return (
    <form
      class="step"
      onSubmit={(event) => {
        event.preventDefault();
        if (!disabled) onDeny(reason.trim());
      }}
    >
      <label>
        <span>Reason (optional). The model sees it.</span>
        <input
          ref={field}
          class="field"
          value={reason}
          maxLength={500}
          onInput={(event) => setReason(event.currentTarget.value)}
        />
      </label>
      <div class="buttons">
        <button type="button" class="button quiet" onClick={onBack}>
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

interface RuleProps {
  readonly choice: "session" | "always";
  readonly rule: GrantRule | null;
  readonly disabled: boolean;
  readonly onDecide: (choice: Choice) => void;
  readonly onBack: () => void;
}

/** The rule before it is stored: what would not be asked about any more. */
function Rule({ choice, rule, disabled, onDecide, onBack }: RuleProps): JSX.Element {
  const span = choice === "session" ? "in this chat" : "in every chat";
  return (
    <div class="step">
      {rule === null ? (
        <p>This action is too broad for a rule. You can only allow it once.</p>
      ) : (
        <>
          <p>
            Allow without asking <strong>{span}</strong>:
          </p>
          <RuleText rule={rule} />
        </>
      )}
      <div class="buttons">
        <button type="button" class="button quiet" onClick={onBack}>
          Back
        </button>
        <span class="spread" />
        {rule === null ? (
          <button type="button" class="button primary" disabled={disabled} onClick={() => onDecide("once")}>
            Allow once
          </button>
        ) : (
          <button type="button" class="button primary" disabled={disabled} onClick={() => onDecide(choice)}>
            {choice === "session" ? "Allow in this chat" : "Always allow"}
          </button>
        )}
      </div>
    </div>
  );
}
