/** Something about a run in one line: a switch of models, a wait, a resumption, a summary. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { countdown, timeOfDay } from "../format.ts";
import { Icon, type IconName } from "../icons.tsx";
import { harmless } from "../markdown/safe.ts";
import { readContext } from "../state/context.ts";
import { type Entry, type NoticeEntry, type NoticeKind, nowMs, session, tryNow } from "../state.ts";
import { useActing } from "./acting.ts";
import { Problem } from "./problem.tsx";
import { Prose } from "./prose.tsx";
import { RevertButton } from "./revert_button.tsx";

const ICONS: Readonly<Record<NoticeKind, IconName>> = {
  noted: "archive",
  switched: "swap",
  gated: "clock",
  resumed: "bolt",
  compacted: "archive",
  trimmed: "archive",
  not_compacted: "warning",
  steered: "send",
  saved: "folder",
  goal: "swap",
  described: "image",
  transcribed: "chat",
};

export function Notice({ entry }: { readonly entry: NoticeEntry }): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <div class="notice">
      <p class="notice-line">
        <Icon name={ICONS[entry.notice]} />
        <span>{harmless(entry.text)}</span>
        {entry.notice === "gated" ? <Gate entry={entry} /> : null}
        {isShortened(entry) ? <Revert entry={entry} /> : null}
        {entry.summary === "" ? null : (
          <button type="button" class="more" aria-expanded={open} onClick={() => setOpen(!open)}>
            {entry.notice === "goal" ? "Show prompt" : open ? "Hide summary" : "Show summary"}
          </button>
        )}
      </p>
      {open ? <Prose text={entry.summary} /> : null}
    </div>
  );
}

function isShortened(entry: Entry): boolean {
  return entry.kind === "notice" && (entry.notice === "compacted" || entry.notice === "trimmed");
}

function Revert({ entry }: { readonly entry: NoticeEntry }): JSX.Element | null {
  entry.version.value; // a revert changes the entry in place
  const here = session.value;
  const isNewest = here?.entries.value.findLast(isShortened) === entry;
  // The last call doesn't count what was summarized since.
  useEffect(() => {
    if (here !== null && isNewest) void readContext(here.id);
  }, [here?.id, isNewest, entry.is_reverted]);
  return here && <RevertButton seq={entry.seq} sessionId={here.id} reverted={entry.is_reverted} />;
}

/** The wait while it lasts, and a way to end it; afterwards, until when it was. */
function Gate({ entry }: { readonly entry: NoticeEntry }): JSX.Element {
  const acting = useActing();
  const run = session.value?.currentRun.value;
  const waits = run?.run_id === entry.run_id && run.gate_until_ms === entry.until_ms && entry.until_ms > 0;
  if (!waits) return <span class="muted">Until {timeOfDay(entry.until_ms)}</span>;
  return (
    <>
      <span class="countdown">{countdown(entry.until_ms - nowMs.value)}</span>
      <button
        type="button"
        class="button small"
        disabled={acting.busy}
        onClick={() => acting.act(() => tryNow(entry.run_id))}
      >
        Try now
      </button>
      <Problem words={acting.trouble} />
    </>
  );
}
