/** The model targets of the server: how each is, what was learned about it, and a call to see whether it works. */
// Needs what those panels need: otherwise the build cuts the first load into more pieces, which compress worse.
import "../frame/panels.tsx";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { TargetFailed, TargetState, TargetTried } from "../bodies.ts";
import { duration, grouped, moment } from "../format.ts";
import { closeDialog } from "../frame/ui.ts";
import { Icon } from "../icons.tsx";
import { harmless } from "../markdown/safe.ts";
import { may, nowMs, type Result } from "../state.ts";
import { useActing } from "../talk/acting.ts";
import { Problem } from "../talk/problem.tsx";
import { quoted } from "../talk/quoted.tsx";
import { Fact } from "./fact.tsx";
import { useRefreshed } from "./refreshed.ts";
import { RefreshedDialog } from "./refreshed_dialog.tsx";
import { readTargets, tryTarget } from "./requests.ts";
import { callsOf, healthOf, kindWords, learnedOf, patienceOf, since, stopped } from "./target_words.ts";

const EVERY_MS = 3000;

export function TargetsDialog(): JSX.Element {
  const targets = useRefreshed("targets", readTargets, EVERY_MS);
  return (
    <RefreshedDialog
      title="Targets"
      about="Models this server calls. Runs use the first target and fall back to the next."
      refreshed={targets}
      onClose={() => closeDialog("targets")}
    >
      <ul class="targets" aria-label="Targets">
        {(targets.value ?? []).map((target) => (
          <Target key={target.name} target={target} atMs={targets.atMs} onTried={targets.reload} />
        ))}
      </ul>
    </RefreshedDialog>
  );
}

interface TargetProps {
  readonly target: TargetState;
  readonly atMs: number;
  readonly onTried: () => void;
}

function Target({ target, atMs, onTried }: TargetProps): JSX.Element {
  const health = healthOf(target, atMs, nowMs.value);
  const learned = learnedOf(target);
  const { last_answer_at: answered, last_failure: failure } = target;
  const window = target.context_window > 0 ? `${grouped(target.context_window / 1000)} k context` : "";
  return (
    <li class="target">
      <header class="target-head">
        <span class={`health ${health.kind}`} aria-hidden="true" />
        <h3>
          {harmless(target.name)}
          <span class="fine muted">
            {[target.model === target.name ? "" : harmless(target.model), target.wire, window]
              .filter(Boolean)
              .join(" · ")}
          </span>
        </h3>
      </header>
      <dl class="facts">
        <Fact name="Health">
          <span class={health.kind === "good" ? "" : "warned"}>{health.words}</span>
          {health.why ? <span class="fine muted">{harmless(health.why)}</span> : null}
        </Fact>
        <Fact name="Calls now">{callsOf(target)}</Fact>
        <Fact name="Last answer">
          {answered == null ? "None since the server started" : <When at={answered} />}
        </Fact>
        {failure == null ? null : (
          <Fact name="Last error">
            <Failed failure={failure} />
          </Fact>
        )}
        <Fact name="Timeouts">{patienceOf(target)}</Fact>
        {learned.length === 0 ? null : (
          <Fact name="Learned">
            {learned.map((words) => (
              <span key={words} class="line">
                {words}
              </span>
            ))}
          </Fact>
        )}
      </dl>
      {may("admin") ? <TryNow name={target.name} onTried={onTried} /> : null}
    </li>
  );
}

function When({ at }: { readonly at: number }): JSX.Element {
  return <time title={moment(1000 * at)}>{since(at, nowMs.value)}</time>;
}

function Failed({ failure }: { readonly failure: TargetFailed }): JSX.Element {
  return (
    <>
      {kindWords(failure.kind)}
      {failure.at == null ? null : (
        <>
          , <When at={failure.at} />
        </>
      )}
      <span class="fine muted">{quoted(stopped(harmless(failure.text)))}</span>
    </>
  );
}

function TryNow({ name, onTried }: { readonly name: string; readonly onTried: () => void }): JSX.Element {
  const acting = useActing();
  const [tried, setTried] = useState<TargetTried | null>(null);
  const work = async (): Promise<Result<unknown>> => {
    setTried(null);
    const result = await tryTarget(name);
    if (result.ok) setTried(result.value);
    onTried();
    return result;
  };
  return (
    <div class="target-try">
      <button
        type="button"
        class="button small"
        // a disabled button would lose the focus
        aria-disabled={acting.busy}
        title="Make one small call (costs a few tokens)"
        onClick={() => void acting.act(work)}
      >
        {acting.busy ? <span class="spinner" /> : <Icon name="bolt" />}
        {acting.busy ? "Trying" : "Try now"}
        <span class="unseen">{harmless(name)}</span>
      </button>
      <div role="status">{tried === null ? null : <Tried tried={tried} />}</div>
      <Problem words={acting.trouble} />
    </div>
  );
}

function Tried({ tried }: { readonly tried: TargetTried }): JSX.Element {
  const { works, ms, first_ms: first, failure } = tried;
  const begun = first == null ? "" : `, first token after ${duration(first)}`;
  return (
    <span class="tried">
      <Icon name={works ? "check" : "warning"} />
      <span>
        {failure == null ? `Answered in ${duration(ms)}${begun}` : null}
        {failure == null
          ? null
          : works
            ? `Works, but ended after ${duration(ms)}: `
            : `Failed after ${duration(ms)}: `}
        {failure == null ? null : <Failed failure={failure} />}
      </span>
    </span>
  );
}
