/** Where a person writes: text, files, and the round buttons that send and stop. */
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { PlanMode } from "../features/plans/plan_place.tsx";
import { PickFiles } from "../frame/pick_files.tsx";
import { dialog } from "../frame/ui.ts";
import { Icon } from "../icons.tsx";
import {
  compact,
  has,
  homeDraft,
  isCommand,
  type RunView,
  type SendMode,
  saveDraft,
  send,
  session,
  settings,
  statusOf,
  stop,
  stopAsked,
} from "../state.ts";
import { type Acting, useActing } from "./acting.ts";
import { again, attach, attached, detach, leftOut, takeParts, whyNotReady } from "./attachments.ts";
import { Chips } from "./chips.tsx";
import { commands } from "./command_words.ts";
import { useParts } from "./fetched.ts";
import { focusComposer } from "./focus.ts";
import { PermissionMode } from "./permission_mode.tsx";
import { type Option, PickChip } from "./pick_chip.tsx";
import { Picture } from "./picture.tsx";
import { Problem } from "./problem.tsx";
import { sends } from "./send_key.ts";

/** A longer text is easier for the agent to search as a file. */
const PASTED_CHARS_MAX = 8000;

const MODES: readonly Option[] = [
  ["steer", "Steer", "The agent reads it at its next step"],
  ["queue", "Queue", "Sent when this run ends"],
  ["redirect", "Interrupt", "Stops the current answer and continues from your message"],
];

export function Composer(): JSX.Element {
  const here = session.value;
  const draft = here === null ? homeDraft : here.draft;
  const text = draft.value;
  const run = here?.currentRun.value ?? null;
  const [mode, setMode] = useState<SendMode>("steer");
  const [pasted, setPasted] = useState("");
  // what looks like a command that there isn't: it is sent if the person sends it again
  const [held, setHeld] = useState("");
  // what the person chose for the next message; else it goes on as the newest run was
  const [chosen, setPlanning] = useState<boolean | null>(null);
  const isPlanning = has("plans") && (chosen ?? here?.isPlanning.value ?? false);
  const acting = useActing();
  const field = useRef<HTMLTextAreaElement>(null);
  const files = attached();
  const notReady = whyNotReady();
  const isReady = notReady === "";
  const [wasTried, setTried] = useState(false);
  const isNothing = (words: string): boolean => words.trim() === "" && files.length === 0;
  const isEmpty = isNothing(text);
  const parts = useParts(pasted !== "" || /^[/!#]/.test(text) || files.length > 0);
  useFitting(field, text);
  useLayoutEffect(() => {
    // a card that someone opened the chat for has the focus already
    if (!document.activeElement?.closest(".ask")) focusComposer();
  }, [here?.id]);
  useEffect(() => {
    if (isReady) setTried(false);
  }, [isReady]);

  const submit = (): void => {
    // what is written now, which may be more than what was drawn last
    const words = draft.peek();
    if (isNothing(words)) return;
    if (!isReady) {
      // the file that is in the way may be out of sight in a long list
      setTried(true);
      return;
    }
    leftOut.value = "";
    acting.forget();
    if (parts?.memoryIn(words)) {
      void parts.proposeMemory(words);
      return;
    }
    const [command, rest] = commandIn(words);
    if (command === "/help") {
      saveDraft("");
      dialog.value = "help";
      return;
    }
    const isKnown = commands().some(([name]) => name === command);
    if (command !== "" && !isKnown && held !== words) {
      const isOwn = parts?.sendOwnCommand(command, rest, run === null ? "queue" : mode);
      void Promise.resolve(isOwn).then((isSent) => isSent || setHeld(words));
      return;
    }
    setHeld("");
    if (here !== null && run === null && command === "/compact") {
      saveDraft("");
      void acting.act(() => compact(here.id, rest));
      return;
    }
    const isPlan = isKnown && command === "/plan";
    const isGoal = isKnown && command === "/goal";
    if (isPlan && rest === "") {
      saveDraft("");
      setPlanning(!isPlanning);
      return;
    }
    const isSaidIn = isPlan || isGoal;
    if (isSaidIn && rest === "") return;
    const way = isCommand(words) ? "command" : isGoal ? "goal" : isPlan || isPlanning ? "plan" : "";
    const taken = takeParts();
    saveDraft("");
    setPlanning(null);
    // a message that fails stays in the transcript with its text, so there is nothing to say here
    void send(isSaidIn ? rest : words, taken, run === null ? "queue" : mode, here, way);
  };
  return (
    <form
      class="composer"
      aria-label="Message"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      {parts && files.length > 0 ? (
        <parts.AttachmentList files={files} onAgain={again} onRemove={detach} thumbnail={Picture} />
      ) : null}
      <textarea
        ref={field}
        id="composer"
        rows={1}
        aria-label="Message"
        placeholder={run === null ? "Message the agent" : "Message the running agent"}
        value={text}
        dir="auto"
        enterkeyhint={settings.value.sendKey === "enter" ? "send" : "enter"}
        onInput={(event) => saveDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (!sends(event)) return;
          event.preventDefault();
          submit();
        }}
        onPaste={(event) => {
          const found = [...(event.clipboardData?.files ?? [])];
          if (found.length === 0) {
            const words = event.clipboardData?.getData("text/plain") ?? "";
            // a text field has only one kind of line end
            setPasted(words.length > PASTED_CHARS_MAX ? words.replace(/\r\n?/g, "\n") : "");
            return;
          }
          event.preventDefault();
          attach(found);
        }}
      />
      {parts && (
        <>
          <parts.PasteOffer pasted={pasted} draft={text} onAttach={attach} />
          <parts.CommandHints draft={text} canCompact={here !== null && run === null} />
        </>
      )}
      <div class="composer-foot">
        <PickFiles label="Attach files" purpose="Files to attach" icon="attach" onPick={attach} />
        <PermissionMode acting={acting} />
        <Chips />
        {isPlanning ? <PlanMode onEnd={() => setPlanning(false)} /> : null}
        <span class="spread" />
        {run !== null && !isEmpty ? (
          <PickChip
            label="How to send it"
            options={MODES}
            value={mode}
            onPick={(picked) => setMode(picked as SendMode)}
          />
        ) : null}
        {run === null ? null : <StopButton run={run} acting={acting} />}
        {run === null || !isEmpty ? <SendButton isEmpty={isEmpty} isReady={isReady} /> : null}
      </div>
      <p class="stop-hint" role="status">
        {run !== null && stopAsked.value === run.run_id ? "Press Esc again to stop" : ""}
      </p>
      <Problem
        words={
          (wasTried && notReady) || leftOut.value || acting.trouble || (held && held === text ? UNKNOWN : "")
        }
      />
    </form>
  );
}

const COMMAND = /^\s*(\/[\w-]+)(?:\s+([\s\S]*))?$/;
const UNKNOWN = "Unknown command; `/help` lists them. To send it as a message, send it again.";

/** The command that the text begins with, and what follows it; a path is none. */
function commandIn(words: string): readonly [command: string, rest: string] {
  const found = COMMAND.exec(words);
  return [found?.[1] ?? "", found?.[2]?.trim() ?? ""];
}

/** As high as its text, up to a limit, in browsers whose styles cannot say so; to measure costs a layout. */
function useFitting(field: { readonly current: HTMLTextAreaElement | null }, text: string): void {
  useLayoutEffect(() => {
    const element = field.current;
    if (element === null || CSS.supports("field-sizing", "content")) return;
    element.style.height = "auto";
    if (text !== "") element.style.height = `${element.scrollHeight}px`;
  }, [text]);
}

interface SendProps {
  readonly isEmpty: boolean;
  readonly isReady: boolean;
}

function SendButton({ isEmpty, isReady }: SendProps): JSX.Element {
  const name = isReady ? "Send" : "Upload all files to send";
  return (
    <button type="submit" class="round" aria-label={name} title={name} disabled={isEmpty || !isReady}>
      <Icon name="send" />
    </button>
  );
}

/** Stop is there as long as something can be stopped, whatever is written meanwhile. */
function StopButton({ run, acting }: { readonly run: RunView; readonly acting: Acting }): JSX.Element {
  const stopping = statusOf(run) === "stopping";
  return (
    <button
      type="button"
      class="round stop"
      aria-label={stopping ? "Stopping" : "Stop"}
      title={stopping ? "Stopping" : "Stop (press Esc twice)"}
      disabled={stopping || acting.busy}
      onClick={() => acting.act(stop)}
    >
      {stopping ? <span class="spinner" /> : <Icon name="stop" />}
    </button>
  );
}
