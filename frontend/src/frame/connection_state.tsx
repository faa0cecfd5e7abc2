/** The connection to the server and its store: a tick while everything is saved, otherwise the problem. */
import { computed, useSignal, useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { SAVING_DELAYED } from "../activity_words.ts";
import { grouped } from "../format.ts";
import { Icon, type IconName } from "../icons.tsx";
import { connection, live, nowMs, saved, session, storeError } from "../state.ts";

const CAUGHT_UP_MS = 2_500;
const hasSaved = computed(() => saved.value > 0);
/** Why events or messages aren't being saved right now; empty if they are. */
const notSaving = computed(() => {
  const line = live.value?.text ?? "";
  return line.startsWith(SAVING_DELAYED) ? line : storeError.value;
});

export function ConnectionState(): JSX.Element {
  const caughtUp = useCaughtUp();
  return (
    <div class="connection" role="status">
      {caughtUp.value ? (
        <span class="pill good">
          <Icon name="check" />
          Caught up
        </span>
      ) : (
        <State />
      )}
    </div>
  );
}

function State(): JSX.Element | null {
  switch (connection.value) {
    case "connecting":
      return <Pill words="Connecting" title="" />;
    case "reconnecting":
      return (
        <Pill
          words="Reconnecting"
          title="Can't reach the server. Nothing is lost: this page catches up when it reconnects."
        />
      );
    case "offline":
      return (
        <Pill
          words="Offline"
          title="You're offline. Messages are saved and sent when you're back online."
          icon="cloud"
        />
      );
    case "live":
      if (notSaving.value) return <Pill words="Not saving" title={notSaving.value} />;
      return session.value && hasSaved.value ? <Saved /> : null;
    case "signed-out":
      return null;
  }
}

function Pill({ words, title, icon }: { words: string; title: string; icon?: IconName }): JSX.Element {
  return (
    <span class="pill" title={title}>
      {icon ? <Icon name={icon} /> : <span class="spinner" />}
      {words}
    </span>
  );
}

/** The number is read out by nobody, since it changes all the time; while a run goes on, it is drawn once a second. */
function Saved(): JSX.Element {
  const seq = session.value?.currentRun.value && nowMs.value > 0 ? saved.peek() : saved.value;
  return (
    <span class="saved" title="Everything up to this event is saved to disk." aria-hidden="true">
      <Icon name="check" />
      <span class="saved-word">saved · </span>
      {grouped(seq)}
    </span>
  );
}

/** True for a moment after a lost connection is back. */
function useCaughtUp() {
  const shown = useSignal(false);
  const wasLost = useRef(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useSignalEffect(() => {
    const now = connection.value;
    if (now === "live" && wasLost.current) {
      shown.value = true;
      clearTimeout(timer.current);
      timer.current = setTimeout(() => {
        shown.value = false;
      }, CAUGHT_UP_MS);
    } else if (now !== "live") {
      shown.value = false;
    }
    wasLost.current = now === "reconnecting" || now === "offline";
  });
  return shown;
}
