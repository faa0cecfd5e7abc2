"""`holdfast diff`, `holdfast undo` and `holdfast redo`: show, undo and redo a run's changes."""

from collections.abc import Iterator, Mapping

from holdfast.cli.attach import FAILED, OK, Attached, with_server
from holdfast.cli.ids import resolve_run
from holdfast.cli.terminal.columns import print_json
from holdfast.cli.terminal.output import echo
from holdfast.cli.terminal.tool_output import redone_words
from holdfast.features.undo.client import ChangeCalls
from holdfast.features.undo.operations import (
    FileChanged,
    GitMoved,
    RunChanges,
    RunUndone,
    UndoPreviewed,
    UndoRequest,
)
from holdfast.safe_text import safe, safe_line

NOT_COVERED_SHOWN = 10


def show_changes(flags: Mapping[str, object], run_id: str, *, form: str) -> int:
    """Print what a run changed, as diffs."""

    async def work(attached: Attached) -> int:
        found = await ChangeCalls(attached.client).show(await resolve_run(attached.client, run_id))
        if form == "json":
            print_json(found)
        else:
            echo("\n".join(change_lines(found)))
        return OK

    return with_server(flags, work, works="nothing")


def undo_run(flags: Mapping[str, object], run_id: str, request: UndoRequest, *, form: str) -> int:
    """Undo a run: restore its files, and rewind its session."""

    async def work(attached: Attached) -> int:
        client = attached.client
        done = await ChangeCalls(client).undo(await resolve_run(client, run_id), request)
        return _print_done(done, form=form, redone=False)

    return with_server(flags, work, works="nothing")


def preview_undo(flags: Mapping[str, object], run_id: str, request: UndoRequest, *, form: str) -> int:
    """Print which files and runs an undo would change."""

    async def work(attached: Attached) -> int:
        client = attached.client
        found = await ChangeCalls(client).preview(await resolve_run(client, run_id), request)
        if form == "json":
            print_json(found)
        else:
            echo("\n".join(preview_lines(found)))
        return OK

    return with_server(flags, work, works="nothing")


def preview_lines(found: UndoPreviewed) -> Iterator[str]:
    """List the runs that would be removed, then the files that would change."""
    for turn in found.turns:
        yield f"removed   run {turn.number}: {safe_line(turn.text)}"
    if found.turns_total > len(found.turns):
        yield f"and {_count(found.turns_total - len(found.turns), 'more run')}"
    for file in found.files:
        yield f"{file.effect:<9} {safe_line(file.path)}{f' ({file.conflict})' if file.conflict else ''}"
    if found.files_total > len(found.files):
        yield f"and {_count(found.files_total - len(found.files), 'more file')}"
    if not found.turns_total and not found.files_total:
        yield "Nothing would change."
    if found.git is not None:
        yield from _git_lines(found.git)


def redo_run(flags: Mapping[str, object], run_id: str, request: UndoRequest, *, form: str) -> int:
    """Reverse the newest undo of a run."""

    async def work(attached: Attached) -> int:
        client = attached.client
        done = await ChangeCalls(client).redo(await resolve_run(client, run_id), request)
        return _print_done(done, form=form, redone=True)

    return with_server(flags, work, works="nothing")


def _print_done(done: RunUndone, *, form: str, redone: bool) -> int:
    if form == "json":
        print_json(done)
    else:
        echo("\n".join(undone_lines(done, redone=redone)))
    return FAILED if done.left else OK


def undone_lines(done: RunUndone, *, redone: bool) -> Iterator[str]:
    """The result of an undo or a redo."""
    count = len(done.files)
    if redone:
        yield redone_words(count, 0 if done.log_kept else done.turns)
    else:
        yield f"Restored {_count(count, 'file')} to {'its' if count == 1 else 'their'} state before the run."
        if done.turns > 1 and not done.log_kept:
            yield f"Rewound the conversation by {done.turns} runs."
    yield from undone_notes(done)


def undone_notes(done: RunUndone) -> Iterator[str]:
    """The files that an undo or a redo skipped, and its effects on the conversation and git."""
    for one in done.left:
        yield f"left alone: {safe_line(one.path)} ({safe_line(one.why)})"
    if done.log_kept:
        yield "The conversation is unchanged."
    if done.git is not None:
        yield from _git_lines(done.git)


def change_lines(found: RunChanges) -> Iterator[str]:
    """Yield a run's changes: a line for each file, then the diffs, then files not covered by snapshots."""
    if not found.files:
        yield "This run changed no covered files."
    for one in found.files:
        note = {"undone": " (undone)", "changed_since": " (changed since)"}.get(one.state, "")
        yield f"{one.kind:<8} {safe_line(one.path)}{_size(one)}{note}"
    if len(found.files) < found.files_total:
        yield f"and {found.files_total - len(found.files):,} more"
    for one in found.files:
        if one.diff:
            yield ""
            yield safe(one.diff).rstrip("\n")
    for why in found.why_not:
        yield f"No snapshot of a turn: {safe_line(why)}. Its changes aren't listed and can't be undone."
    if found.git is not None:
        yield ""
        yield from _git_lines(found.git)
    yield from _not_covered(found)


def _git_lines(moved: GitMoved) -> Iterator[str]:
    yield "The run also changed git's history, which an undo doesn't reverse. To go back:"
    yield f"  {safe_line(moved.way_back)}"


def _not_covered(found: RunChanges) -> Iterator[str]:
    if not found.not_covered_total:
        return
    yield ""
    total = _count(found.not_covered_total, "file or folder", "files and folders")
    yield f"Not covered by snapshots: {total}"
    for one in found.not_covered[:NOT_COVERED_SHOWN]:
        changed = ", changed during the run" if one.changed else ""
        yield f"  {safe_line(one.path)} ({one.why}{changed})"
    if found.not_covered_total > NOT_COVERED_SHOWN:
        yield "  …"


def _size(one: FileChanged) -> str:
    if one.before_bytes is None and one.after_bytes is None:
        return ""
    sizes = (one.before_bytes, one.after_bytes)
    what = " → ".join(f"{size:,}" for size in sizes if size is not None)
    unit = "byte" if sizes[-1] == 1 or (sizes[-1] is None and sizes[0] == 1) else "bytes"
    return f"  {what} {unit}{', binary' if one.binary else ''}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
