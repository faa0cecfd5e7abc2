"""The bodies of requests and responses about what runs changed, and about taking it back."""

from typing import Annotated

import msgspec

from holdfast.api.body import ResponseBody, one_of


def _says(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class UndoRequest(msgspec.Struct, kw_only=True):
    """The body of POST /v1/runs/{run_id}/undo and /redo; it is optional."""

    files: Annotated[
        list[str], _says("Only these files, as the list of changes names them. The conversation stays.")
    ] = msgspec.field(default_factory=list[str])
    keep_log: Annotated[bool, _says("Restore files, but don't change the conversation.")] = False
    force: Annotated[bool, _says("Overwrite files that someone else changed since.")] = False
    keep_both: Annotated[
        bool, _says("Restore files that someone else changed since, and keep a copy of theirs beside each.")
    ] = False
    plan: Annotated[
        str, _says("Undo only: a preview's `plan`. If anything else would change now: 409 plan_changed.")
    ] = ""
    undo_id: Annotated[str, _says("Redo only: the undo to reverse. Default: the run's newest.")] = ""


class UndoShown(ResponseBody, frozen=True):
    """An undo that can be redone, or whose removed runs are still away."""

    undo_id: str
    run_id: str
    seq: int
    at_ms: int
    files: Annotated[int, _says("How many files it changed.")]
    turns: Annotated[int, _says("How many runs it removed from the conversation.")]
    returns_chat: Annotated[
        bool,
        _says("Whether a redo restores the runs. Once the conversation continues, it restores only files."),
    ]
    partial: Annotated[bool, _says("Whether it undid single files instead of whole runs.")]
    paths: Annotated[
        tuple[str, ...],
        _says("The files; sent only with a run's changes. Empty if they're no longer stored."),
    ] = ()
    files_redone: Annotated[
        bool,
        _says(
            "Whether a redo brought its files back. Only the runs are away: fork at `seq` - 1 to see them."
        ),
    ] = False


class RemovedTurnShown(ResponseBody, frozen=True):
    """A run that an undo removes from the conversation."""

    run_id: str
    number: Annotated[int, _says("Its position in the conversation, from 1.")]
    text: Annotated[str, _says("The start of the message.")]


class FileEffect(ResponseBody, frozen=True):
    """A file that an undo changes."""

    path: str
    effect: Annotated[str, one_of("restored", "recreated", "deleted")]
    conflict: Annotated[str, _says("Why the undo is refused without force or keep_both.")] = ""


class UndoPreviewed(ResponseBody, frozen=True):
    """The preview of an undo. Nothing has changed yet."""

    run_id: str
    plan: Annotated[str, _says("Send it with the undo, which then fails if anything else would change.")]
    turns: Annotated[tuple[RemovedTurnShown, ...], _says("The oldest first.")]
    turns_total: int
    files: tuple[FileEffect, ...]
    files_total: int
    log_kept: bool
    git: Annotated[
        "GitMoved | None", _says("How git's history moved during the run. An undo doesn't reverse that.")
    ] = None


class FileChanged(ResponseBody, frozen=True):
    """A file that the run changed; in its name, a byte that isn't UTF-8 is shown as its number."""

    path: str
    kind: Annotated[str, one_of("created", "changed", "deleted", "mode")]
    state: Annotated[str, one_of("as_run_left_it", "undone", "changed_since")]
    conflict: Annotated[str, _says("Why it isn't undone without force.")] = ""
    before_bytes: int | None = None
    after_bytes: int | None = None
    binary: bool = False
    diff: Annotated[str, _says("A unified diff, if it is text and not too long.")] = ""


class FileNotCovered(ResponseBody, frozen=True):
    """A file or folder that snapshots leave out."""

    path: str
    why: Annotated[
        str,
        one_of("ignored", "secret", "too large", "git", "not a file", "unreadable", "too deep"),
    ]
    changed: Annotated[bool, _says("Whether the file changed during the run; this can't be undone.")] = False


class GitMoved(ResponseBody, frozen=True):
    """Git's history moved during the run. An undo doesn't reverse that; `way_back` does."""

    commit_before: str
    commit_after: str
    branch_before: Annotated[str, _says("Empty if no branch was checked out.")]
    branch_after: str
    way_back: Annotated[str, _says("Commands that reset git and leave the files alone.")]


class RunChanges(ResponseBody, frozen=True):
    """What a run changed in its workspace; if it was undone with later runs, what all of them changed."""

    run_id: str
    workspace: str
    files: tuple[FileChanged, ...]
    files_total: int
    undone: bool
    not_covered: tuple[FileNotCovered, ...] = ()
    not_covered_total: int = 0
    why_not: Annotated[tuple[str, ...], _says("Why turns of the run have no snapshot.")] = ()
    git: Annotated[GitMoved | None, _says("How git's history moved during the run.")] = None
    undos: Annotated[tuple[UndoShown, ...], _says("The undos of this run, oldest first.")] = ()
    session_id: Annotated[
        str, _says("The session that the run belongs to. A fork shows runs of its source.")
    ] = ""


class FileLeft(ResponseBody, frozen=True):
    """A file that wasn't restored."""

    path: str
    why: str


class RunUndone(ResponseBody, frozen=True):
    """The undo is on disk, and the files are as they were before the run."""

    run_id: str
    undo_id: str
    digest: Annotated[str, _says("The SHA-256 of the exact plan.")]
    files: Annotated[tuple[str, ...], _says("The restored files.")]
    runs: Annotated[tuple[str, ...], _says("The runs that were undone.")] = ()
    left: Annotated[tuple[FileLeft, ...], _says("Files that changed meanwhile and were left alone.")] = ()
    log_kept: bool = False
    git: Annotated[
        GitMoved | None, _says("How git's history moved during the run. An undo doesn't reverse that.")
    ] = None
    turns: Annotated[int, _says("How many runs were removed from the conversation, or restored.")] = 0
