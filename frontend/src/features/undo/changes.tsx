/** The changes of a run: every file that it touched with its diff, and the ways to take them back. */
import type { JSX } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { call, type Result, runPath, type Trouble } from "../../api.ts";
import type { FileChanged, RunChanges, RunUndone, UndoShown } from "../../bodies.ts";
import { bytes, plural, timeOfDay } from "../../format.ts";
import { changesOf } from "../../frame/ui.ts";
import { Icon, type IconName } from "../../icons.tsx";
import { languageOf } from "../../markdown/languages.ts";
import { exact, harmless } from "../../markdown/safe.ts";
import { fork, session } from "../../state.ts";
import { useActing } from "../../talk/acting.ts";
import { ShadedText } from "../../talk/code_block.tsx";
import { Problem } from "../../talk/problem.tsx";
import { GitNote } from "./git_note.tsx";
import { offerRedo, RedoDialog, UndoDialog } from "./undo_dialog.tsx";

type Way = "undo" | "redo";
interface Choices {
  readonly files?: readonly string[];
  readonly undo_id?: string;
  readonly keep_log?: boolean;
  readonly force?: boolean;
  readonly keep_both?: boolean;
}

/** An undo or redo request. */
interface Asked {
  readonly way: Way;
  readonly runId: string;
  readonly choices: Choices;
}

const KINDS: Readonly<Record<string, string>> = {
  created: "new",
  changed: "changed",
  deleted: "deleted",
  mode: "permissions",
};

interface ChangesTabProps {
  /** "" if nothing has run yet. */
  readonly runId: string;
}

export function ChangesTab({ runId }: ChangesTabProps): JSX.Element {
  const here = session.value;
  const inChat = new Set(here?.entries.value.map((entry) => entry.run_id));
  const choices = [...(here?.runs.value.values() ?? [])].filter(
    (run) => inChat.has(run.run_id) && ((run.files_changed ?? 0) > 0 || run.run_id === runId),
  );
  const away = undosByRun((here?.undos.value ?? []).filter((undo) => !inChat.has(undo.run_id)));
  if (runId === "") return <p class="panel-note">No runs yet. Files changed by a run appear here.</p>;
  return (
    <>
      <div class="files-tools">
        <select
          class="field run-choice"
          aria-label="Run to show"
          value={runId}
          onChange={({ currentTarget: { value } }) => {
            changesOf.value = value;
          }}
        >
          {choices.toReversed().map((run) => (
            <option key={run.run_id} value={run.run_id}>
              {timeOfDay(run.created_ms)} {saidIn(run.run_id)} · {plural(run.files_changed ?? 0, "file")}
            </option>
          ))}
          {away.toReversed().map((undo) => (
            <option key={undo.undo_id} value={undo.run_id}>
              Undone {timeOfDay(undo.at_ms)} · {undoneWords(undo)}
            </option>
          ))}
        </select>
      </div>
      <Found key={runId} runId={runId} />
    </>
  );
}

/** The newest undo of each run; one that removed runs goes before those of single files. */
function undosByRun(undos: readonly UndoShown[]): UndoShown[] {
  const found = new Map<string, UndoShown>();
  for (const undo of undos) {
    if (undo.turns > 0 || !found.get(undo.run_id)?.turns) found.set(undo.run_id, undo);
  }
  return [...found.values()];
}

function undoneWords({ turns, files, files_redone }: UndoShown): string {
  if (files_redone) return `${plural(turns, "run")}, files redone`;
  return turns === 0 ? plural(files, "file") : `${plural(turns, "run")}, ${plural(files, "file")}`;
}

const SAID_CHARS_MAX = 40;

/** The start of the message that a run answers. */
function saidIn(runId: string): string {
  const person = session.value?.entries.value.find((one) => one.kind === "person" && one.run_id === runId);
  const text = person?.kind === "person" ? harmless(person.message.text) : "";
  return text.length > SAID_CHARS_MAX ? `${text.slice(0, SAID_CHARS_MAX)}…` : text;
}

function Found({ runId }: { readonly runId: string }): JSX.Element {
  const [found, setFound] = useState<Result<RunChanges> | null>(null);
  const [refused, setRefused] = useState<{ trouble: Trouble; asked: Asked } | null>(null);
  const [busy, setBusy] = useState(false);
  const [asking, setAsking] = useState<Way | null>(null);
  const load = useCallback(async () => setFound(await call("GET", runPath(runId, "/changes"))), [runId]);
  // an undo or a redo from elsewhere changes what is shown here
  useEffect(() => void load(), [load, session.value?.undos.value]);
  const act = async (asked: Asked): Promise<void> => {
    await focusPanel();
    setBusy(true);
    setRefused(null);
    const path = runPath(asked.runId, `/${asked.way}`);
    const result = await call<RunUndone>("POST", path, { body: asked.choices });
    if (!result.ok) setRefused({ trouble: result.trouble, asked });
    else if (asked.way === "undo") offerRedo(result.value);
    await load();
    setBusy(false);
  };
  if (found === null) {
    return (
      <p class="panel-note">
        <span class="spinner" /> Reading the files
      </p>
    );
  }
  if (!found.ok) return <p class="panel-note problem">{found.trouble.message}</p>;
  const changes = found.value;
  const open = changes.files.some((file) => file.state !== "undone");
  const idle = session.value?.currentRun.value === null && !busy;
  // A fork shows the changes of its source's runs, but its own runs aren't away.
  const isOwn = changes.session_id === session.value?.id;
  const undos = isOwn ? (changes.undos ?? []) : [];
  const whole = undos.findLast((undo) => !(undo.partial || undo.files_redone));
  const redo = (undo: UndoShown): Asked => ({
    way: "redo",
    runId: undo.run_id,
    choices: { undo_id: undo.undo_id, keep_log: !undo.returns_chat },
  });
  return (
    <div class="changes">
      <div class="changes-head">
        <span>{plural(changes.files_total, "file")}</span>
        <span class="spread" />
        {changes.undone && whole !== undefined ? (
          <Redo undo={whole} idle={idle} onRedo={() => setAsking("redo")} />
        ) : (
          <button
            type="button"
            class="button small"
            title={isOwn ? "Preview the changes first" : "Undo this in the original chat"}
            disabled={!(idle && open && isOwn)}
            onClick={() => setAsking("undo")}
          >
            <Icon name="undo" />
            Undo run…
          </button>
        )}
      </div>
      {undos.map((undo) => (
        <Removed key={undo.undo_id} undo={undo} />
      ))}
      {refused === null ? null : (
        <Refused
          trouble={refused.trouble}
          onChoose={(more) => act({ ...refused.asked, choices: { ...refused.asked.choices, ...more } })}
        />
      )}
      <ul class="changes-files">
        {changes.files.map((file) => {
          const own = undos.findLast((undo) => undo.partial && undo.paths?.includes(file.path));
          return (
            <File
              key={file.path}
              file={file}
              idle={idle}
              onUndo={() => act({ way: "undo", runId, choices: { files: [file.path] } })}
              onRedo={own === undefined ? null : () => act(redo(own))}
            />
          );
        })}
      </ul>
      {changes.files_total > changes.files.length ? (
        <p class="panel-note">And {plural(changes.files_total - changes.files.length, "more file")}.</p>
      ) : null}
      {(changes.why_not ?? []).map((why) => (
        <p key={why} class="panel-note">
          Part of this run has no snapshot, so it can't be undone: {harmless(why)}.
        </p>
      ))}
      <GitNote git={changes.git} />
      <NotCovered changes={changes} />
      {asking === "undo" ? (
        <UndoDialog
          runId={runId}
          onClose={() => setAsking(null)}
          onUndone={() => void focusPanel().then(load)}
        />
      ) : null}
      {asking === "redo" && whole !== undefined ? (
        <RedoDialog
          undo={whole}
          onClose={() => setAsking(null)}
          onRedo={() => {
            setAsking(null);
            void act(redo(whole));
          }}
        />
      ) : null}
    </div>
  );
}

/** Takes the focus from a button that is about to go, once a dialog that closes gave it back. */
async function focusPanel(): Promise<void> {
  await Promise.resolve();
  document.getElementById("files")?.focus();
}

interface RedoProps {
  readonly undo: UndoShown;
  readonly idle: boolean;
  readonly onRedo: () => void;
}

function Redo({ undo, idle, onRedo }: RedoProps): JSX.Element {
  const what = undo.returns_chat ? `${plural(undo.turns, "turn")} and ` : "";
  const isNext = !undo.returns_chat || newestUndo()?.undo_id === undo.undo_id;
  return (
    <button
      type="button"
      class="button small"
      title={
        isNext
          ? `Restores ${what}${plural(undo.files, "file")}, after a preview`
          : "Redo the later undo first"
      }
      disabled={!(idle && isNext)}
      onClick={onRedo}
    >
      <Icon name="retry" />
      {undo.returns_chat || undo.turns === 0 ? "Redo…" : "Redo files…"}
    </button>
  );
}

/** The newest undo whose runs can return: those before it have to wait for it. */
function newestUndo(): UndoShown | undefined {
  return session.value?.undos.value.findLast((undo) => undo.returns_chat);
}

/** Why the runs of an undo can't return to this chat, and where they are. */
function Removed({ undo }: { readonly undo: UndoShown }): JSX.Element | null {
  const acting = useActing();
  if (undo.returns_chat || undo.turns === 0) return null;
  return (
    <div class="changes-git">
      The chat continued after this undo, so {plural(undo.turns, "removed run")} can't return to it.{" "}
      <button
        type="button"
        class="more"
        disabled={acting.busy}
        onClick={() => acting.act(() => fork(undo.seq - 1))}
      >
        Open them in a new chat
      </button>
      <Problem words={acting.trouble} />
    </div>
  );
}

function Refused({
  trouble,
  onChoose,
}: {
  readonly trouble: Trouble;
  readonly onChoose: (more: Choices) => void;
}): JSX.Element {
  const isConflict = trouble.code === "undo_conflict";
  return (
    <div class="changes-refused" role="alert">
      {/* what follows the first sentence is for those who call the API */}
      <p>{harmless(isConflict ? trouble.message.replace(/\. Use force .*$/s, ".") : trouble.message)}</p>
      {isConflict ? (
        <p class="changes-ways">
          <button
            type="button"
            class="button small"
            title="Undo the run's changes and save a copy of each of these files next to it"
            onClick={() => onChoose({ keep_both: true })}
          >
            Keep both
          </button>
          <button type="button" class="button small danger" onClick={() => onChoose({ force: true })}>
            Overwrite
          </button>
        </p>
      ) : null}
    </div>
  );
}

interface FileProps {
  readonly file: FileChanged;
  readonly idle: boolean;
  readonly onUndo: () => void;
  /** Null unless the file was undone by itself. */
  readonly onRedo: (() => void) | null;
}

function File({ file, idle, onUndo, onRedo }: FileProps): JSX.Element {
  const [open, setOpen] = useState(false);
  const note = file.state === "undone" ? "undone" : (file.conflict ?? "");
  return (
    <li class="changes-file">
      <div class="changes-line">
        <button type="button" class="changes-name" aria-expanded={open} onClick={() => setOpen(!open)}>
          <Icon name="chevron" />
          <span>{exact(file.path)}</span>
        </button>
        <span class={`changes-kind ${note === "" ? file.kind : ""}`}>
          {note || KINDS[file.kind] || file.kind}
        </span>
        {file.state === "undone" ? null : (
          <FileButton
            words={`Undo changes to ${exact(file.path)}`}
            icon="undo"
            idle={idle}
            onClick={onUndo}
          />
        )}
        {file.state === "undone" && onRedo !== null ? (
          <FileButton
            words={`Redo changes to ${exact(file.path)}`}
            icon="retry"
            idle={idle}
            onClick={onRedo}
          />
        ) : null}
      </div>
      {open ? <Contents file={file} /> : null}
    </li>
  );
}

interface FileButtonProps {
  readonly words: string;
  readonly icon: IconName;
  readonly idle: boolean;
  readonly onClick: () => void;
}

function FileButton({ words, icon, idle, onClick }: FileButtonProps): JSX.Element {
  return (
    <button
      type="button"
      class="icon-button small"
      aria-label={words}
      title={words}
      disabled={!idle}
      onClick={onClick}
    >
      <Icon name={icon} />
    </button>
  );
}

function Contents({ file }: { readonly file: FileChanged }): JSX.Element {
  const { diff, binary, before_bytes: before, after_bytes: after } = file;
  if (diff) return <ShadedText text={exact(diff)} language={languageOf("diff").language} label="Changes" />;
  const sizes = [before, after].filter((size) => size !== undefined && size !== null).map(bytes);
  return (
    <p class="panel-note">
      {binary ? "Not text" : "No text to compare"} · {sizes.join(" → ")}
    </p>
  );
}

function NotCovered({ changes }: { readonly changes: RunChanges }): JSX.Element | null {
  const { not_covered: listed = [], not_covered_total: total = 0 } = changes;
  if (total === 0) return null;
  return (
    <details class="changes-uncovered">
      <summary>Not covered: {plural(total, "file or folder", "files and folders")}</summary>
      <ul>
        {listed.map((one) => (
          <li key={one.path}>
            {exact(one.path)} <span class="muted">{one.changed ? `${one.why}, changed` : one.why}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}
