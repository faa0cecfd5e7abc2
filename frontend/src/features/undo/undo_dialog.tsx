/** Confirms an undo: lists the runs and files that would change, from the server's preview. */
import type { ComponentChildren, JSX } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { call, type Result, runPath } from "../../api.ts";
import type { FileEffect, RemovedTurnShown, RunUndone, UndoPreviewed, UndoShown } from "../../bodies.ts";
import { plural } from "../../format.ts";
import { Choices } from "../../frame/choices.tsx";
import { Dialog } from "../../frame/dialog.tsx";
import { offerUndo } from "../../frame/ui.ts";
import { exact, harmless } from "../../markdown/safe.ts";
import { session } from "../../state.ts";
import { Problem } from "../../talk/problem.tsx";
import { GitNote } from "./git_note.tsx";

type Scope = "turns" | "files";
type OnConflict = { force?: true; keep_both?: true };

interface UndoDialogProps {
  readonly runId: string;
  readonly onClose: () => void;
  /** Called after an undo. */
  readonly onUndone: () => void;
}

export function UndoDialog({ runId, onClose, onUndone }: UndoDialogProps): JSX.Element {
  const [scope, setScope] = useState<Scope>("turns");
  const { found, trouble, setTrouble, read } = usePreview(runId, scope);
  const [busy, setBusy] = useState(false);
  const undo = async (how: OnConflict): Promise<void> => {
    setBusy(true);
    const body = { ...how, keep_log: scope === "files", plan: found?.plan };
    const result = await call<RunUndone>("POST", runPath(runId, "/undo"), { body });
    setBusy(false);
    if (result.ok) {
      offerRedo(result.value);
      onClose();
      onUndone();
      return;
    }
    if (result.trouble.code === "plan_changed") await read();
    setTrouble(result.trouble.message);
  };
  return (
    <Dialog title={titleOf(found)} onClose={onClose}>
      <div class="undo-ask">
        <Choices
          legend="Undo"
          value={scope}
          options={[
            { value: "turns", words: "Runs and files" },
            { value: "files", words: "Only this run's files" },
          ]}
          onChange={setScope}
        />
        {found === null && trouble === "" ? (
          <p class="muted">
            <span class="spinner" /> Comparing the files
          </p>
        ) : null}
        {found === null ? null : <Effects found={found} />}
        <Problem words={trouble} />
        {found === null ? null : <Ways found={found} busy={busy} onUndo={undo} onCancel={onClose} />}
      </div>
    </Dialog>
  );
}

interface Preview {
  readonly found: UndoPreviewed | null;
  readonly trouble: string;
  readonly setTrouble: (words: string) => void;
  readonly read: () => Promise<void>;
}

function usePreview(runId: string, scope: Scope): Preview {
  const [found, setFound] = useState<{ scope: Scope; value: UndoPreviewed } | null>(null);
  const [trouble, setTrouble] = useState("");
  const read = useCallback(async () => {
    setTrouble("");
    const body = { keep_log: scope === "files" };
    const result: Result<UndoPreviewed> = await call("POST", runPath(runId, "/undo/preview"), { body });
    setFound(result.ok ? { scope, value: result.value } : null);
    if (!result.ok) setTrouble(result.trouble.message);
  }, [runId, scope]);
  useEffect(() => void read(), [read]);
  // ignore a preview of the other choice
  return { found: found?.scope === scope ? found.value : null, trouble, setTrouble, read };
}

function titleOf(found: UndoPreviewed | null): string {
  const first = found?.turns[0]?.number;
  if (found === null || first === undefined) return "Undo run?";
  const last = first + found.turns_total - 1;
  return last === first ? `Undo run ${first}?` : `Undo runs ${first} to ${last}?`;
}

function Effects({ found }: { readonly found: UndoPreviewed }): JSX.Element {
  const { turns, turns_total, files, files_total } = found;
  return (
    <>
      {turns_total === 0 ? null : (
        <Part words={`Removes ${plural(turns_total, "run")} from the chat`}>
          {turns.map((turn) => (
            <Turn key={turn.run_id} turn={turn} />
          ))}
          <More count={turns_total - turns.length} what="run" />
        </Part>
      )}
      <Part words={files_total === 0 ? "Changes no files" : `Changes ${plural(files_total, "file")}`}>
        {files.map((file) => (
          <File key={file.path} file={file} />
        ))}
        <More count={files_total - files.length} what="file" />
      </Part>
      <GitNote git={found.git} />
      <p class="fine muted">
        {found.log_kept
          ? "You can redo this at any time."
          : "You can redo this until you send another message. After that, redo restores only files."}
      </p>
    </>
  );
}

function Part({
  words,
  children,
}: {
  readonly words: string;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <section>
      <h3>{words}</h3>
      <ul>{children}</ul>
    </section>
  );
}

function Turn({ turn }: { readonly turn: RemovedTurnShown }): JSX.Element {
  return (
    <li>
      Run {turn.number} <span class="muted">{harmless(turn.text)}</span>
    </li>
  );
}

function File({ file }: { readonly file: FileEffect }): JSX.Element {
  return (
    <li>
      {exact(file.path)}{" "}
      <span class={`changes-kind ${file.effect === "deleted" ? "deleted" : ""}`}>{file.effect}</span>
      {file.conflict ? <span class="problem"> {file.conflict}</span> : null}
    </li>
  );
}

function More({ count, what }: { readonly count: number; readonly what: string }): JSX.Element | null {
  return count > 0 ? <li class="muted">and {plural(count, `more ${what}`)}</li> : null;
}

interface WaysProps {
  readonly found: UndoPreviewed;
  readonly busy: boolean;
  readonly onUndo: (how: OnConflict) => void;
  readonly onCancel: () => void;
}

function Ways({ found, busy, onUndo, onCancel }: WaysProps): JSX.Element {
  const disputed = found.files.some((file) => file.conflict);
  return (
    <p class="undo-ways">
      <button type="button" class="button" onClick={onCancel}>
        Cancel
      </button>
      {disputed ? (
        <>
          <button
            type="button"
            class="button danger"
            title="Undo and overwrite later changes"
            disabled={busy}
            onClick={() => onUndo({ force: true })}
          >
            Overwrite
          </button>
          <button
            type="button"
            class="button primary"
            title="Undo and save a copy of each of these files next to it"
            disabled={busy}
            onClick={() => onUndo({ keep_both: true })}
          >
            Keep both
          </button>
        </>
      ) : (
        <button type="button" class="button primary" disabled={busy} onClick={() => onUndo({})}>
          Undo
        </button>
      )}
    </p>
  );
}

interface RedoDialogProps {
  readonly undo: UndoShown;
  readonly onClose: () => void;
  readonly onRedo: () => void;
}

/** Asks before a redo: which files change, and whether runs return. */
export function RedoDialog({ undo, onClose, onRedo }: RedoDialogProps): JSX.Element {
  const { turns, files, paths = [], returns_chat } = undo;
  return (
    <Dialog title={returns_chat || turns === 0 ? "Redo?" : "Redo files?"} onClose={onClose}>
      <div class="undo-ask">
        {returns_chat ? <h3>{plural(turns, "run returns", "runs return")} to the chat</h3> : null}
        <Part words={plural(files, "file changes", "files change")}>
          {paths.map((path) => (
            <li key={path}>{exact(path)}</li>
          ))}
          <More count={files - paths.length} what="file" />
        </Part>
        {returns_chat || turns === 0 ? null : (
          <p class="fine muted">
            {plural(turns, "removed run")} won't return to this chat. You can still open{" "}
            {turns === 1 ? "it" : "them"} in a new one.
          </p>
        )}
        <p class="undo-ways">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="button" class="button primary" onClick={onRedo}>
            Redo
          </button>
        </p>
      </div>
    </Dialog>
  );
}

/** Shows what was undone, and offers a redo. */
export function offerRedo({ run_id, undo_id, turns = 0, files, left = [], log_kept }: RunUndone): void {
  const removed = log_kept || turns === 0 ? "" : `${plural(turns, "run")} and `;
  const copies = files.filter((path) => /\.before-undo(-\d+)?$/.test(path));
  const count = files.length - copies.length;
  const what = removed === "" && files.length === 1 ? exact(files[0] ?? "") : plural(count, "file");
  const beside =
    copies.length === 0 ? "" : ` Your version is in ${copies.map((path) => exact(path)).join(", ")}.`;
  const kept = left.length === 0 ? "" : ` Not restored: ${plural(left.length, "file")} that changed since.`;
  offerUndo(
    `Undid ${removed}${what}.${beside}${kept}`,
    () => call("POST", runPath(run_id, "/redo"), { body: { undo_id } }),
    () =>
      (session.value?.undos.value ?? []).some(
        (undo) => undo.undo_id === undo_id && (undo.returns_chat || undo.turns === 0),
      ),
  );
}
