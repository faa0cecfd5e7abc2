/** The changes of a run: every file that it touched with its diff, and the ways to take them back. */
import type { JSX } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { call, type Result, runPath, type Trouble } from "../api.ts";
import type { FileChanged, RunChanges } from "../bodies.ts";
import { bytes, plural } from "../format.ts";
import { changesOf } from "../frame/ui.ts";
import { Icon } from "../icons.tsx";
import { languageOf } from "../markdown/languages.ts";
import { exact, harmless } from "../markdown/safe.ts";
import { session } from "../state.ts";
import { ShadedText } from "../talk/code_block.tsx";

type Way = "undo" | "redo";
type Choices = { files?: readonly string[]; force?: boolean; keep_both?: boolean };

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
  const runs = [...(session.value?.runs.value.values() ?? [])];
  const choices = runs.filter((run) => (run.files_changed ?? 0) > 0 || run.run_id === runId);
  if (runId === "")
    return <p class="panel-note">Nothing has run yet. Files that a run changes appear here.</p>;
  return (
    <>
      <div class="files-tools">
        <select
          class="field run-choice"
          aria-label="Whose changes are shown"
          value={runId}
          onChange={({ currentTarget: { value } }) => {
            changesOf.value = value;
          }}
        >
          {choices.toReversed().map((run) => (
            <option key={run.run_id} value={run.run_id}>
              Run {runs.indexOf(run) + 1} · {plural(run.files_changed ?? 0, "file")}
            </option>
          ))}
        </select>
      </div>
      <Found key={runId} runId={runId} />
    </>
  );
}

function Found({ runId }: { readonly runId: string }): JSX.Element {
  const [found, setFound] = useState<Result<RunChanges> | null>(null);
  const [refused, setRefused] = useState<{ trouble: Trouble; choices: Choices } | null>(null);
  const [busy, setBusy] = useState(false);
  const load = useCallback(async () => setFound(await call("GET", runPath(runId, "/changes"))), [runId]);
  useEffect(() => {
    load();
  }, [load]);
  const act = async (way: Way, choices: Choices = {}): Promise<void> => {
    // the button is about to go or to be disabled, and would take the focus with it
    document.getElementById("files")?.focus();
    setBusy(true);
    setRefused(null);
    const result = await call("POST", runPath(runId, `/${way}`), { body: choices });
    if (!result.ok) setRefused({ trouble: result.trouble, choices });
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
  return (
    <div class="changes">
      <div class="changes-head">
        <span>{plural(changes.files_total, "file")}</span>
        <span class="spread" />
        {changes.undone ? (
          <button type="button" class="button small" disabled={!idle} onClick={() => act("redo")}>
            <Icon name="retry" />
            Redo
          </button>
        ) : (
          <button type="button" class="button small" disabled={!(idle && open)} onClick={() => act("undo")}>
            <Icon name="undo" />
            Undo turn
          </button>
        )}
      </div>
      {refused === null ? null : (
        <Refused
          trouble={refused.trouble}
          onChoose={(more) => act(changes.undone ? "redo" : "undo", { ...refused.choices, ...more })}
        />
      )}
      <ul class="changes-files">
        {changes.files.map((file) => (
          <File key={file.path} file={file} idle={idle} onUndo={() => act("undo", { files: [file.path] })} />
        ))}
      </ul>
      {changes.files_total > changes.files.length ? (
        <p class="panel-note">And {plural(changes.files_total - changes.files.length, "more file")}.</p>
      ) : null}
      {(changes.why_not ?? []).map((why) => (
        <p key={why} class="panel-note">
          Part of this run has no snapshot, so it can't be undone: {harmless(why)}.
        </p>
      ))}
      {changes.git == null ? null : (
        <p class="changes-git">
          The run also changed git's history, and an undo leaves that alone. To go back, run{" "}
          <code>{exact(changes.git.way_back)}</code> in the workspace.
        </p>
      )}
      <NotCovered changes={changes} />
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
            title="Undo the run's changes, and save a copy of each of these files beside it"
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
}

function File({ file, idle, onUndo }: FileProps): JSX.Element {
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
          <button
            type="button"
            class="icon-button small"
            aria-label={`Undo changes to ${exact(file.path)}`}
            title="Undo this file"
            disabled={!idle}
            onClick={onUndo}
          >
            <Icon name="undo" />
          </button>
        )}
      </div>
      {open ? <Contents file={file} /> : null}
    </li>
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
