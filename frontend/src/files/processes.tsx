/** What the session's tools left running in the background, on whichever server, and the end of its output. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { sessionPath } from "../api.ts";
import type { BackgroundJobShown, BackgroundOutput, SessionLive } from "../bodies.ts";
import { moment } from "../format.ts";
import { harmless } from "../markdown/safe.ts";
import { useRefreshed } from "../server_panels/refreshed.ts";
import { ask } from "../state/asking.ts";
import type { Result } from "../state.ts";

const EVERY_MS = 2000;

function processPath(sessionId: string, jobId: string, rest = ""): string {
  return sessionPath(sessionId, `/processes/${encodeURIComponent(jobId)}${rest}`);
}

interface ProcessesTabProps {
  readonly sessionId: string;
}

export function ProcessesTab({ sessionId }: ProcessesTabProps): JSX.Element {
  const live = useRefreshed<SessionLive>(
    sessionId,
    () => ask("GET", sessionPath(sessionId, "/live")),
    EVERY_MS,
  );
  if (live.value === null && live.trouble === "") {
    return (
      <p class="panel-note">
        <span class="spinner" /> Loading processes
      </p>
    );
  }
  const jobs = (live.value?.background ?? []).toSorted(newestFirst);
  return (
    <>
      {live.trouble !== "" ? (
        <p class="panel-note problem" role="alert">
          {harmless(live.trouble)}
        </p>
      ) : null}
      {live.value?.known === false ? (
        <p class="panel-note warned">
          {live.value.server === "" ? "A server" : `Server ${harmless(live.value.server)}`} doesn't answer, so
          processes may be missing here.
        </p>
      ) : null}
      {jobs.length === 0 ? (
        <p class="panel-note">No processes. Background processes started by the agent appear here.</p>
      ) : (
        <ul class="processes" aria-label="Background processes">
          {jobs.map((job) => (
            <Process key={job.job_id} sessionId={sessionId} job={job} onChange={live.reload} />
          ))}
        </ul>
      )}
    </>
  );
}

function newestFirst(one: BackgroundJobShown, other: BackgroundJobShown): number {
  if (one.running !== other.running) return one.running ? -1 : 1;
  return other.started_at - one.started_at;
}

/** How it is, in words. */
export function stateOf(job: BackgroundJobShown): string {
  if (job.running) return "Running";
  if (job.exit_code === undefined || job.exit_code === null) return "Ended";
  return job.exit_code < 0 ? `Ended by signal ${-job.exit_code}` : `Ended with exit code ${job.exit_code}`;
}

interface ProcessProps {
  readonly sessionId: string;
  readonly job: BackgroundJobShown;
  readonly onChange: () => void;
}

function Process({ sessionId, job, onChange }: ProcessProps): JSX.Element {
  const [open, setOpen] = useState(false);
  const [busy, setBusy] = useState(false);
  const [trouble, setTrouble] = useState("");
  const stop = async (): Promise<void> => {
    setBusy(true);
    const result: Result<BackgroundOutput> = await ask("POST", processPath(sessionId, job.job_id, "/stop"));
    setBusy(false);
    setTrouble(result.ok ? "" : result.trouble.message);
    // the button goes with the process, and would take the focus with it
    document.getElementById("files")?.focus();
    onChange();
  };
  return (
    <li class="process">
      <header class="process-head">
        <span class={`health ${job.running ? "" : "ended"}`} aria-hidden="true" />
        <h3>{harmless(job.command)}</h3>
      </header>
      <p class="process-about">
        {stateOf(job)} · started {moment(job.started_at * 1000)}
        {job.server ? ` on ${harmless(job.server)}` : ""} · <span>{harmless(job.job_id)}</span>
      </p>
      <div class="process-ways">
        <button type="button" class="button small" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "Hide output" : "Show output"}
        </button>
        {job.running ? (
          <button type="button" class="button small danger" disabled={busy} onClick={stop}>
            {busy ? "Stopping" : "Stop"}
          </button>
        ) : null}
      </div>
      {trouble === "" ? null : (
        <p class="panel-note problem" role="alert">
          {harmless(trouble)}
        </p>
      )}
      {open ? <Output sessionId={sessionId} job={job} /> : null}
    </li>
  );
}

function Output({ sessionId, job }: Omit<ProcessProps, "onChange">): JSX.Element {
  const found = useRefreshed<BackgroundOutput>(
    `${job.job_id} ${job.running}`,
    () => ask("GET", processPath(sessionId, job.job_id)),
    EVERY_MS,
  );
  const end = useRef<HTMLDivElement>(null);
  const text = found.value?.output ?? "";
  useEffect(() => {
    const place = end.current;
    if (place !== null) place.scrollTop = place.scrollHeight;
  }, [text]);
  if (found.value === null) {
    return found.trouble === "" ? (
      <p class="panel-note">
        <span class="spinner" /> Loading output
      </p>
    ) : (
      <p class="panel-note problem" role="alert">
        {harmless(found.trouble)}
      </p>
    );
  }
  return (
    <>
      {found.value.is_cut ? <p class="process-about">Only the end of the output is shown.</p> : null}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls must be reachable by keyboard */}
      <div class="process-output" role="region" aria-label={`Output of ${job.job_id}`} tabIndex={0} ref={end}>
        {harmless(text) || "No output yet."}
      </div>
    </>
  );
}
