"""Operations on the changes of runs, with their bodies: show, undo and redo."""

from typing import Annotated

import msgspec

from holdfast.api.body import ResponseBody, doc, one_of
from holdfast.api.operation import RUN_ERRORS, Operation
from holdfast.api.sessions import UndoShown


class UndoRequest(msgspec.Struct, kw_only=True):
    """The optional body of POST /v1/runs/{run_id}/undo and /redo."""

    files: Annotated[
        list[str], doc("Only these files, named as in the list of changes. The conversation isn't rewound.")
    ] = msgspec.field(default_factory=list[str])
    keep_log: Annotated[bool, doc("Restore files without rewinding the conversation.")] = False
    force: Annotated[bool, doc("Overwrite files that have changed since the run.")] = False
    keep_both: Annotated[
        bool, doc("Restore files that have changed since the run, and save a copy of each next to it.")
    ] = False
    plan: Annotated[
        str,
        doc("Undo only: `plan` from a preview. If the changes no longer match it, you get 409 plan_changed."),
    ] = ""
    undo_id: Annotated[str, doc("Redo only: the undo to reverse. Default: the run's newest.")] = ""


class RemovedTurnShown(ResponseBody, frozen=True):
    """A run that an undo removes from the conversation."""

    run_id: str
    number: Annotated[int, doc("Its position in the conversation, from 1.")]
    text: Annotated[str, doc("The start of the message.")]


class FileEffect(ResponseBody, frozen=True):
    """A file that an undo changes."""

    path: str
    effect: Annotated[str, one_of("restored", "recreated", "deleted")]
    conflict: Annotated[str, doc("Why the undo is refused without force or keep_both.")] = ""


class UndoPreviewed(ResponseBody, frozen=True):
    """The preview of an undo. Nothing has changed yet."""

    run_id: str
    plan: Annotated[str, doc("Send it with the undo request, which fails if the changes no longer match.")]
    turns: Annotated[tuple[RemovedTurnShown, ...], doc("Oldest first.")]
    turns_total: int
    files: tuple[FileEffect, ...]
    files_total: int
    log_kept: bool
    git: Annotated[
        "GitMoved | None", doc("How git's history changed during the run. An undo doesn't reverse it.")
    ] = None


class FileChanged(ResponseBody, frozen=True):
    """A file changed by the run. Bytes in its name that aren't UTF-8 are shown as numbers."""

    path: str
    kind: Annotated[str, one_of("created", "changed", "deleted", "mode")]
    state: Annotated[str, one_of("as_run_left_it", "undone", "changed_since")]
    conflict: Annotated[str, doc("Why it can't be undone without force.")] = ""
    before_bytes: int | None = None
    after_bytes: int | None = None
    binary: bool = False
    diff: Annotated[str, doc("A unified diff, for text files that aren't too long.")] = ""


class FileNotCovered(ResponseBody, frozen=True):
    """A file or folder excluded from snapshots."""

    path: str
    why: Annotated[
        str,
        one_of("ignored", "secret", "too large", "git", "not a file", "unreadable", "too deep"),
    ]
    changed: Annotated[bool, doc("Whether the file changed during the run, which can't be undone.")] = False


class GitMoved(ResponseBody, frozen=True):
    """A change to git's history during the run. An undo doesn't reverse it; `way_back` does."""

    commit_before: str
    commit_after: str
    branch_before: Annotated[str, doc("Empty if no branch was checked out.")]
    branch_after: str
    way_back: Annotated[str, doc("Commands that reset git without changing files.")]


class RunChanges(ResponseBody, frozen=True):
    """A run's changes to its workspace. If it was undone together with later runs, includes their changes."""

    run_id: str
    workspace: str
    files: tuple[FileChanged, ...]
    files_total: int
    undone: bool
    not_covered: tuple[FileNotCovered, ...] = ()
    not_covered_total: int = 0
    why_not: Annotated[tuple[str, ...], doc("Why turns of the run have no snapshot.")] = ()
    git: Annotated[GitMoved | None, doc("How git's history changed during the run.")] = None
    undos: Annotated[tuple[UndoShown, ...], doc("The undos of this run, oldest first.")] = ()
    session_id: Annotated[str, doc("The session of the run. A fork also shows runs from its source.")] = ""


class FileLeft(ResponseBody, frozen=True):
    """A file that wasn't restored."""

    path: str
    why: str


class RunUndone(ResponseBody, frozen=True):
    """The undo is stored and the files are restored."""

    run_id: str
    undo_id: str
    digest: Annotated[str, doc("The SHA-256 of the exact plan.")]
    files: Annotated[tuple[str, ...], doc("The restored files.")]
    runs: Annotated[tuple[str, ...], doc("The runs that were undone.")] = ()
    left: Annotated[
        tuple[FileLeft, ...], doc("Files that changed in the meantime and weren't restored.")
    ] = ()
    log_kept: bool = False
    git: Annotated[
        GitMoved | None, doc("How git's history changed during the run. An undo doesn't reverse it.")
    ] = None
    turns: Annotated[int, doc("Number of runs removed from the conversation, or restored.")] = 0


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        "/v1/runs/{run_id}/changes",
        "changes.show",
        tag="Runs",
        shows_files=True,
        summary="List the files changed by a run, with diffs, and files not covered by its snapshots.",
        responses={200: RunChanges},
        errors={
            403: "workspace_not_allowed",
            **RUN_ERRORS,
            409: "undo_off, several_workspaces, workspace_unwritable",
            410: "snapshot_gone",
        },
    ),
    Operation(
        "POST",
        "/v1/runs/{run_id}/undo",
        "changes.undo",
        tag="Runs",
        summary=(
            "Undo a run and all later runs: restore their files and rewind the session to before the run. "
            "Refused if it would overwrite other changes."
        ),
        scopes=("approve",),
        request=UndoRequest,
        responses={200: RunUndone},
        errors={
            400: "invalid_request, invalid_json",
            403: "workspace_not_allowed",
            404: "run_not_found, file_not_changed",
            409: (
                "undo_conflict, plan_changed, session_busy, session_deleted, nothing_to_undo, undo_off, "
                "several_workspaces, workspace_unwritable"
            ),
            410: "snapshot_gone",
        },
    ),
    Operation(
        "POST",
        "/v1/runs/{run_id}/undo/preview",
        "changes.preview",
        tag="Runs",
        summary="Preview which files and runs an undo would change.",
        request=UndoRequest,
        responses={200: UndoPreviewed},
        errors={
            400: "invalid_request, invalid_json",
            403: "workspace_not_allowed",
            404: "run_not_found, file_not_changed",
            409: "session_busy, nothing_to_undo, undo_off, several_workspaces, workspace_unwritable",
            410: "snapshot_gone",
        },
    ),
    Operation(
        "POST",
        "/v1/runs/{run_id}/redo",
        "changes.redo",
        tag="Runs",
        summary="Redo an undone run: restore its files, and its runs if the conversation hasn't continued.",
        scopes=("approve",),
        request=UndoRequest,
        responses={200: RunUndone},
        errors={
            400: "invalid_request, invalid_json",
            403: "workspace_not_allowed",
            **RUN_ERRORS,
            409: (
                "undo_conflict, session_busy, session_deleted, session_went_on, newer_undo_first, "
                "nothing_to_redo, nothing_to_undo, undo_off, workspace_unwritable"
            ),
            410: "snapshot_gone",
        },
    ),
)
