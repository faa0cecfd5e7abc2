/** The Memory panel: read, edit, roll back and forget memories. */
// Needs what those panels need: otherwise the build cuts the first load into more pieces, which compress worse.
import "../../frame/panels.tsx";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { MemoryChangeShown, MemoryForgotten, MemoryShown } from "../../bodies.ts";
import { moment } from "../../format.ts";
import { Dialog } from "../../frame/dialog.tsx";
import { closeDialog } from "../../frame/ui.ts";
import { harmless } from "../../markdown/safe.ts";
import { useRead } from "../../server_panels/refreshed.ts";
import { loadMemories, may, memories, openAt, proposals, purge } from "../../state.ts";
import { useActing } from "../../talk/acting.ts";
import { Problem } from "../../talk/problem.tsx";
import { Change, OriginLink, Proposals } from "./proposals.tsx";
import { editMemory, forgetMemory, memoryHistory, rollBackMemory, undoChange } from "./requests.ts";

const MODES: Readonly<Record<string, string>> = {
  ask: "Every memory needs your approval.",
  auto: "Memories from your own messages are saved immediately. All others need your approval.",
  off: "Memory is off in the configuration: agents can't read or change it.",
};
const DOCUMENT_CHARS_MAX = 2000;
const NOTE_CHARS_MAX = 4000;

export function MemoryDialog(): JSX.Element {
  const loading = useActing();
  useEffect(() => void loading.act(loadMemories), []);
  const found = memories.value;
  return (
    <Dialog title="Memory" onClose={() => closeDialog("memory")}>
      <p class="fine muted">{MODES[found?.mode ?? ""] ?? ""}</p>
      <Proposals open={proposals.value} />
      {found?.mode === "auto" ? <LearnedToday all={found.data} /> : null}
      {(found?.data ?? []).filter(isMemory).map((memory) => (
        <OneMemory key={`${memory.scope} ${memory.workspace ?? memory.chat ?? ""}`} memory={memory} />
      ))}
      <Problem words={loading.trouble} />
    </Dialog>
  );
}

/** Changes of skills are kept in the same way, and shown with the skills. */
function isMemory({ scope }: MemoryShown): boolean {
  return scope !== "skills";
}

interface Learned {
  readonly memory: MemoryShown;
  readonly change: MemoryChangeShown;
}

/** What agents learned by themselves since midnight; each is taken back with one click. */
function LearnedToday({ all }: { readonly all: readonly MemoryShown[] }): JSX.Element | null {
  const acting = useActing();
  const [learned, setLearned] = useState<readonly Learned[]>([]);
  const seen = all.map((memory) => memory.last_seq ?? 0).join();
  useEffect(() => {
    const midnight = new Date().setHours(0, 0, 0, 0);
    const read = async (memory: MemoryShown): Promise<readonly Learned[]> => {
      const found = await memoryHistory(memory);
      return (found.ok ? found.value : [])
        .filter((change) => change.how === "auto" && change.changed_at * 1000 >= midnight)
        .map((change) => ({ memory, change }));
    };
    let isNewest = true;
    void Promise.all(all.filter((one) => (one.last_seq ?? 0) > 0).map(read)).then(
      (found) => isNewest && setLearned(found.flat()),
    );
    return () => {
      isNewest = false;
    };
  }, [seen]);
  if (learned.length === 0) return null;
  return (
    <section class="memory" aria-label="Learned today">
      <h3>Learned today</h3>
      <ul class="inbox">
        {learned.map(({ memory, change }) => (
          <li key={change.change_id} class="inbox-item">
            <Change before={change.before} after={change.after} />
            <div class="buttons">
              <UndoButton memory={memory} change={change} acting={acting} />
              <OriginLink origin={change.origin} />
            </div>
          </li>
        ))}
      </ul>
      <Problem words={acting.trouble} />
    </section>
  );
}

interface UndoProps extends Learned {
  readonly acting: ReturnType<typeof useActing>;
}

function UndoButton({ memory, change, acting }: UndoProps): JSX.Element | null {
  if (!may("approve")) return null;
  return (
    <button
      type="button"
      class="button small"
      disabled={acting.busy}
      title="Undo only this change"
      onClick={() => void acting.act(() => undoChange(memory, change.change_id))}
    >
      Undo
    </button>
  );
}

function OneMemory({ memory }: { readonly memory: MemoryShown }): JSX.Element {
  const place = memory.chat ? `the chat ${memory.chat}` : (memory.workspace ?? "");
  const title = memory.scope === "user" ? "About you" : `About ${place}`;
  const [forgotten, setForgotten] = useState<MemoryForgotten | null>(null);
  return (
    <section class="memory" aria-label={title}>
      <h3>{harmless(title)}</h3>
      <Text memory={memory} name="" text={memory.document ?? ""} />
      {Object.entries(memory.notes ?? {}).map(([name, text]) => (
        <Text key={name} memory={memory} name={name} text={text} />
      ))}
      {(memory.last_seq ?? 0) > 0 ? (
        <>
          <History memory={memory} />
          {may("approve") ? <Forget memory={memory} onForgotten={setForgotten} /> : null}
        </>
      ) : null}
      {forgotten === null ? null : <StillThere forgotten={forgotten} />}
    </section>
  );
}

interface TextProps {
  readonly memory: MemoryShown;
  readonly name: string;
  readonly text: string;
}

function Text({ memory, name, text }: TextProps): JSX.Element {
  const acting = useActing();
  const [draft, setDraft] = useState<string | null>(null);
  // what the edit began from: an agent may change the memory meanwhile, and that must not be overwritten unseen
  const [from, setFrom] = useState(memory);
  const most = name === "" ? DOCUMENT_CHARS_MAX : NOTE_CHARS_MAX;
  const begin = (): void => {
    setFrom(memory);
    setDraft(text);
  };
  const save = async (): Promise<void> => {
    if (await acting.act(() => editMemory(from, name, draft ?? ""))) setDraft(null);
  };
  return (
    <div class="memory-text">
      {name ? <h4>{harmless(name)}</h4> : null}
      {draft === null ? (
        <p class={text ? "memory-words" : "muted"} dir="auto">
          {text ? harmless(text) : "Nothing yet."}
        </p>
      ) : (
        <textarea
          class="field"
          rows={8}
          maxLength={most}
          aria-label={name || "Memory"}
          value={draft}
          dir="auto"
          onInput={(event) => setDraft(event.currentTarget.value)}
        />
      )}
      {may("approve") ? (
        <div class="buttons">
          {draft === null ? (
            <button type="button" class="button small" onClick={begin}>
              Edit
            </button>
          ) : (
            <>
              <button
                type="button"
                class="button small primary"
                disabled={acting.busy}
                onClick={() => void save()}
              >
                Save
              </button>
              <button type="button" class="button small quiet" onClick={() => setDraft(null)}>
                Cancel
              </button>
              <span class="fine muted">
                {draft.length} of {most}
              </span>
            </>
          )}
        </div>
      ) : null}
      <Problem words={acting.trouble} />
    </div>
  );
}

const HOW: Readonly<Record<MemoryChangeShown["how"], string>> = {
  auto: "Learned",
  accepted: "Accepted",
  edited: "Edited",
  imported: "Imported",
  rolled_back: "Undone",
  kept: "Kept after deletion",
};

export function History({ memory }: { readonly memory: MemoryShown }): JSX.Element {
  const acting = useActing();
  const [isOpen, setOpen] = useState(false);
  const { value: changes, trouble, again } = useRead(() => memoryHistory(memory));
  useEffect(() => {
    if (isOpen) again();
  }, [isOpen, memory.last_seq]);
  return (
    <details class="memory-history" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>History</summary>
      <ul>
        {(changes ?? []).map((change, at) => (
          <li key={change.seq}>
            <p class="inbox-head">
              <strong>{HOW[change.how]}</strong>
              <span class="muted">{moment(change.changed_at * 1000)}</span>
              <span class="muted">{harmless(change.document)}</span>
            </p>
            <Change before={change.before} after={change.after} />
            {change.reason ? <p class="fine muted">Reason: {harmless(change.reason)}</p> : null}
            <div class="buttons">
              <UndoButton memory={memory} change={change} acting={acting} />
              {may("approve") && at > 0 ? (
                <button
                  type="button"
                  class="button small quiet"
                  disabled={acting.busy}
                  title="Undo this change and all later ones"
                  onClick={() => void acting.act(() => rollBackMemory(memory, changes?.[at + 1]?.seq ?? 0))}
                >
                  Roll back to before this
                </button>
              ) : null}
              <OriginLink origin={change.origin} />
            </div>
          </li>
        ))}
      </ul>
      <Problem words={acting.trouble || trouble} />
    </details>
  );
}

interface ForgetProps {
  readonly memory: MemoryShown;
  readonly onForgotten: (forgotten: MemoryForgotten) => void;
}

/** Removes lines with a text, or everything, with the history: this can't be taken back. */
function Forget({ memory, onForgotten }: ForgetProps): JSX.Element {
  const acting = useActing();
  const [text, setText] = useState("");
  return (
    <details class="memory-forget">
      <summary>Forget</summary>
      <form
        class="step"
        onSubmit={(event) => {
          event.preventDefault();
          void acting.act(async () => {
            const result = await forgetMemory(memory, text.trim());
            if (result.ok) onForgotten(result.value);
            return result;
          });
        }}
      >
        <label>
          <span>Forget lines that contain this text. Leave empty to forget everything.</span>
          <input class="field" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <div class="buttons">
          <button type="submit" class="button small danger" disabled={acting.busy}>
            {text.trim() ? "Forget permanently" : "Forget everything permanently"}
          </button>
        </div>
      </form>
      <Problem words={acting.trouble} />
    </details>
  );
}

function StillThere({ forgotten }: { readonly forgotten: MemoryForgotten }): JSX.Element {
  const sessions = forgotten.sessions ?? [];
  return (
    <div role="status">
      <p class="fine">
        {forgotten.forgotten
          ? "Forgotten, along with its history."
          : "Nothing was forgotten: no exact match in this memory."}
      </p>
      {sessions.length > 0 ? (
        <>
          <p class="fine">
            {forgotten.forgotten
              ? "These chats are its source or still contain it."
              : "These chats contain the text."}{" "}
            You can delete them:
          </p>
          <ul class="inbox">
            {sessions.map((one) => (
              <li key={one.session_id} class="inbox-head">
                <button
                  type="button"
                  class="button small quiet"
                  onClick={() => {
                    closeDialog("memory");
                    openAt(one.session_id, { seq: 0, passage: "" });
                  }}
                >
                  {harmless(one.title ?? "") || "A chat"}
                </button>
                <span class="spread" />
                <PurgeButton sessionId={one.session_id} />
              </li>
            ))}
          </ul>
        </>
      ) : null}
    </div>
  );
}

/** Asks once more, because this can't be taken back. */
function PurgeButton({ sessionId }: { readonly sessionId: string }): JSX.Element {
  const acting = useActing();
  const [stage, setStage] = useState<"idle" | "asked" | "done">("idle");
  if (stage === "done") return <span class="fine muted">Deleted permanently.</span>;
  const act = async (): Promise<void> => {
    if (stage === "idle") setStage("asked");
    else if (await acting.act(() => purge(sessionId))) setStage("done");
  };
  return (
    <>
      <button
        type="button"
        class="button small danger"
        disabled={acting.busy}
        onClick={() => void act()}
        onBlur={() => setStage((now) => (now === "asked" ? "idle" : now))}
      >
        {stage === "idle" ? "Delete" : "Delete permanently?"}
      </button>
      <Problem words={acting.trouble} />
    </>
  );
}
