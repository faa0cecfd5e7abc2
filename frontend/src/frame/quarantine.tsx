/** What commands changed without approval and the sandbox took away: put it back, or delete it. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { QuarantineEntry, QuarantineList } from "../bodies.ts";
import { moment } from "../format.ts";
import { harmless } from "../markdown/safe.ts";
import { useRead } from "../server_panels/refreshed.ts";
import { ask } from "../state/asking.ts";
import { useActing } from "../talk/acting.ts";
import { Problem } from "../talk/problem.tsx";

const pathOf = ({ id }: QuarantineEntry): string => `/api/quarantine/${encodeURIComponent(id)}`;

export function Quarantine(): JSX.Element {
  const list = useRead(() => ask<QuarantineList>("GET", "/api/quarantine"));
  const entries = list.value?.data ?? null;
  const [said, setSaid] = useState("");
  const whole = useRef<HTMLDivElement>(null);
  useEffect(list.again, []);
  const done = (words: string): void => {
    setSaid(words);
    list.again();
    // its button is gone, and the focus must not be
    whole.current?.focus();
  };
  return (
    <div ref={whole} class="quarantine" tabIndex={-1}>
      {entries === null ? null : entries.length === 0 ? (
        <p class="fine muted">
          {said === "" ? "Empty. Unapproved changes to protected files are moved here." : ""}
        </p>
      ) : (
        <ul aria-label="Quarantine">
          {entries.map((entry) => (
            <Entry key={entry.id} entry={entry} onDone={done} />
          ))}
        </ul>
      )}
      <p class="fine muted" role="status">
        {said}
      </p>
      <Problem words={list.trouble} />
    </div>
  );
}

interface EntryProps {
  readonly entry: QuarantineEntry;
  readonly onDone: (said: string) => void;
}

function Entry({ entry, onDone }: EntryProps): JSX.Element {
  const acting = useActing();
  const [sure, setSure] = useState(false);
  const name = harmless(entry.path);
  const restore = async (): Promise<void> => {
    if (await acting.act(() => ask("POST", `${pathOf(entry)}/restore`, { body: {} }))) {
      onDone("Restored. Any file it replaced is now in quarantine.");
    }
  };
  const remove = async (): Promise<void> => {
    if (!sure) setSure(true);
    else if (await acting.act(() => ask("DELETE", pathOf(entry)))) onDone("Deleted.");
  };
  return (
    <li>
      <code title={harmless(entry.kept)}>{name}</code>
      <div class="rule-foot">
        <span class="fine muted">Quarantined {moment(1000 * entry.taken_at)}</span>
        <button type="button" class="button small" disabled={acting.busy} onClick={() => void restore()}>
          Restore<span class="unseen"> {name}</span>
        </button>
        <button type="button" class="button small" disabled={acting.busy} onClick={() => void remove()}>
          {sure ? "Confirm delete" : "Delete"}
          <span class="unseen"> {name}</span>
        </button>
      </div>
      <Problem words={acting.trouble} />
    </li>
  );
}
