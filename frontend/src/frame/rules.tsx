/** What people have allowed beyond one action, always or in one chat, and the way to take it back. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type GrantShown, revoke, session, sessions, storedRules } from "../state.ts";
import { useActing } from "../talk/acting.ts";
import { Problem } from "../talk/problem.tsx";
import { RuleText } from "../talk/rule_text.tsx";
import { titleOf } from "./session_row.tsx";

export function Rules(): JSX.Element {
  const [rules, setRules] = useState<readonly GrantShown[] | null>(null);
  const [said, setSaid] = useState("");
  const loading = useActing();
  const whole = useRef<HTMLDivElement>(null);
  useEffect(() => {
    void loading.act(async () => {
      const result = await storedRules();
      if (result.ok) setRules(result.value);
      return result;
    });
  }, []);
  const gone = (rule: GrantShown): void => {
    setRules((known) => (known ?? []).filter((one) => one !== rule));
    setSaid("Revoked. This needs approval again.");
    // its button is gone, and the focus must not be
    whole.current?.focus();
  };
  return (
    <div ref={whole} class="rules" tabIndex={-1}>
      {rules === null ? null : rules.length === 0 ? (
        <p class="fine muted">
          {said === "" ? "None yet. Actions you allow in a chat or always appear here." : ""}
        </p>
      ) : (
        <ul>
          {rules.map((rule) => (
            <RuleLine key={`${rule.scope} ${rule.grant_id}`} rule={rule} onGone={() => gone(rule)} />
          ))}
        </ul>
      )}
      <p class="fine muted" role="status">
        {said}
      </p>
      <Problem words={loading.trouble} />
    </div>
  );
}

function RuleLine({ rule, onGone }: { rule: GrantShown; onGone: () => void }): JSX.Element {
  const acting = useActing();
  return (
    <li>
      <RuleText rule={rule.rule} />
      <div class="rule-foot">
        <span class="fine muted">{spanOf(rule)}</span>
        <button
          type="button"
          class="button small"
          disabled={acting.busy}
          onClick={async () => {
            if (await acting.act(() => revoke(rule))) onGone();
          }}
        >
          Revoke
        </button>
      </div>
      <Problem words={acting.trouble} />
    </li>
  );
}

function spanOf({ scope, session_id }: GrantShown): string {
  if (scope === "always") return "In every chat";
  if (session_id === session.value?.id) return "Only in this chat";
  const row = sessions.value.find((one) => one.id === session_id);
  return row === undefined ? "In another chat" : `In “${titleOf(row)}”`;
}
