"""Changes of runs over HTTP: show, undo, redo."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from http import HTTPStatus
from typing import TypeAlias

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from holdfast.features.undo.changes import shown_change
from holdfast.features.undo.folds import snapshots_of
from holdfast.features.undo.git_heads import GitMove, git_move
from holdfast.features.undo.object_store import MissingObject
from holdfast.features.undo.operations import (
    FileChanged,
    FileEffect,
    FileLeft,
    FileNotCovered,
    GitMoved,
    RemovedTurnShown,
    RunChanges,
    RunUndone,
    UndoPreviewed,
    UndoRequest,
    UndoShown,
)
from holdfast.features.undo.planning import CannotUndo, FoundChanges
from holdfast.features.undo.restores import UndoDone
from holdfast.features.undo.scan import NotCovered
from holdfast.features.undo.snapshots import Snapshots
from holdfast.features.undo.undos import UndoOptions, UndoPreview, Undos, undos_of
from holdfast.folds.rows import RunRow
from holdfast.folds.run import Run
from holdfast.folds.session import OpenUndo, Session
from holdfast.safe_text import safe_line, shown_path
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, bad_request
from holdfast.server.runs.runs import row_of
from holdfast.server.sessions.window import UNDOS_MAX, undo_shown
from holdfast.server.transport.bodies import json_response, parsed, read_body
from holdfast.tools.offload import offload

_Work: TypeAlias = Callable[[str, str, UndoOptions], Awaitable[UndoDone | UndoPreview]]

FILES_MAX = 2_000
DIFFS_CHARS_MAX = 1_000_000  # of all diffs of a response; further files come without one
NOT_COVERED_MAX = 200
TURNS_MAX = 100
TURN_CHARS_MAX = 200
_COMPARED_MAX = 2  # runs at once: diffs of thousands of files would leave no time for anything else


class ChangeRoutes:
    """The routes about what a run changed."""

    def __init__(self, parts: RouteParts) -> None:
        self._deps = deps = parts.deps
        self._known_undos = undos_of(deps.supervisor)
        self._comparing = asyncio.Semaphore(_COMPARED_MAX)

    async def show(self, request: Request) -> Response:
        """GET /v1/runs/{run_id}/changes."""
        row = await row_of(self._deps, request)
        if (elsewhere := await self._deps.peers.elsewhere(request, row.session_id)) is not None:
            return elsewhere
        view = await self._deps.supervisor.view(row.session_id)
        run, is_undone = view.run(row.run_id), view.session.is_undone(row.run_id)
        if not snapshots_of(run):
            none = RunChanges(run_id=run.run_id, workspace="", files=(), files_total=0, undone=False)
            return json_response(replace(none, session_id=row.session_id))
        async with self._comparing:
            try:
                found = await self._undos.changes(row.session_id, row.run_id)
            except CannotUndo as refused:
                return await self._elsewhere_if_gone(request, row, refused)
            show = partial(_shown, found, run, self._undos.snapshots, is_undone=is_undone)
            shown_changes = await offload(show)
        undos = await self._undos_of(view.session, run.run_id)
        return json_response(replace(shown_changes, undos=undos, session_id=row.session_id))

    async def _undos_of(self, session: Session, run_id: str) -> tuple[UndoShown, ...]:
        """The undos of a run, with their files as far as they're stored."""
        known = [each for each in session.undos.values() if run_id in {each.undo.run_id, *each.undo.runs}]
        return tuple([await self._with_paths(each) for each in known[-UNDOS_MAX:]])

    async def _with_paths(self, known: OpenUndo) -> UndoShown:
        try:
            paths = await self._undos.undone_files(known.undo)
        except CannotUndo:
            paths = ()
        return replace(undo_shown(known), paths=paths[:FILES_MAX])

    @property
    def _undos(self) -> Undos:
        if self._known_undos is None:
            raise Problem(
                409, "Undo is off. To enable it for future runs, set undo.enabled to true", code="undo_off"
            )
        return self._known_undos

    async def preview(self, request: Request) -> Response:
        """POST /v1/runs/{run_id}/undo/preview."""
        return await self._put_back(request, lambda: self._undos.preview)

    async def undo(self, request: Request) -> Response:
        """POST /v1/runs/{run_id}/undo."""
        return await self._put_back(request, lambda: self._undos.undo)

    async def redo(self, request: Request) -> Response:
        """POST /v1/runs/{run_id}/redo."""
        return await self._put_back(request, lambda: self._undos.redo)

    async def _elsewhere_if_gone(
        self, request: Request, row: RunRow, refused: CannotUndo, sent: bytes = b""
    ) -> Response:
        """The answer of a server that has the snapshots, or else the refusal."""
        elsewhere = None
        if refused.code == "snapshot_gone":
            elsewhere = await self._deps.peers.at_others(
                request, row.session_id, sent, lacking=HTTPStatus.GONE
            )
        if elsewhere is None:
            raise _problem(refused) from refused
        return elsewhere

    async def _put_back(self, request: Request, work: Callable[[], _Work]) -> Response:
        sent = await read_body(request, self._deps.limits)
        body = await parsed(sent, self._deps.limits, UndoRequest)
        if body.force and body.keep_both:
            raise bad_request("Send 'force' or 'keep_both', not both", param="force")
        row = await row_of(self._deps, request)
        if (elsewhere := await self._deps.peers.elsewhere(request, row.session_id, sent)) is not None:
            return elsewhere
        options = UndoOptions(
            files=tuple(body.files),
            keep_log=body.keep_log,
            on_conflict="overwrite" if body.force else "keep_both" if body.keep_both else "refuse",
            by=request.scope[KEY_NAME],
            plan=body.plan,
            undo_id=body.undo_id,
        )
        try:
            done = await work()(row.session_id, row.run_id, options)
        except CannotUndo as refused:
            return await self._elsewhere_if_gone(request, row, refused, sent)
        if isinstance(done, UndoPreview):
            return json_response(_previewed(row.run_id, done, of_files=bool(options.files)))
        view = await self._deps.supervisor.view(row.session_id)
        runs = [view.run(one) for one in done.undo.runs or (row.run_id,)]
        moved = None if options.files or done.undo.redoes else git_move(runs)
        return json_response(replace(_undone(row.run_id, done), git=_git(moved)))


def _undone(run_id: str, done: UndoDone) -> RunUndone:
    return RunUndone(
        run_id=run_id,
        undo_id=done.undo.undo_id,
        digest=done.undo.digest,
        files=done.files,
        runs=done.undo.runs,
        left=tuple(FileLeft(path=path, why=why) for path, why in done.left),
        log_kept=done.undo.keeps_log,
        turns=done.undo.turns,
    )


def _previewed(run_id: str, preview: UndoPreview, *, of_files: bool) -> UndoPreviewed:
    return UndoPreviewed(
        run_id=run_id,
        plan=preview.plan,
        turns=tuple(
            RemovedTurnShown(turn.run_id, turn.number, safe_line(turn.text, TURN_CHARS_MAX))
            for turn in preview.turns[:TURNS_MAX]
        ),
        turns_total=len(preview.turns),
        files=tuple(
            FileEffect(path=shown_path(each.change.path), effect=each.effect, conflict=each.conflict)
            for each in preview.files[:FILES_MAX]
        ),
        files_total=len(preview.files),
        log_kept=preview.keeps_log,
        git=None if of_files else _git(git_move(preview.runs)),
    )


def _shown(found: FoundChanges, run: Run, snapshots: Snapshots, *, is_undone: bool) -> RunChanges:
    """Blocks."""
    uncovered = list(_not_covered(run, snapshots))
    # Changed paths, which can't be restored, come first.
    uncovered.sort(key=lambda one: not one.changed)
    return RunChanges(
        run_id=run.run_id,
        workspace=found.workspace,
        files=tuple(_files(found, snapshots)),
        files_total=len(found.files),
        undone=is_undone,
        not_covered=tuple(uncovered[:NOT_COVERED_MAX]),
        not_covered_total=max((taken.not_covered for taken in snapshots_of(run)), default=0),
        why_not=found.turns.why_not,
        git=_git(git_move([run])),
    )


def _git(moved: GitMove | None) -> GitMoved | None:
    if moved is None:
        return None
    return GitMoved(
        commit_before=moved.before.commit,
        commit_after=moved.after.commit,
        branch_before=moved.before.branch,
        branch_after=moved.after.branch,
        way_back=moved.way_back,
    )


def _files(found: FoundChanges, snapshots: Snapshots) -> Iterator[FileChanged]:
    left = DIFFS_CHARS_MAX
    for one in found.files[:FILES_MAX]:
        name = shown_path(one.change.path)
        read = partial(snapshots.store.read, kind="blob")
        try:
            text = shown_change(one.change, name, blob=read) if left > 0 else None
        except MissingObject:
            text = None
        left -= len(text.diff) if text is not None else 0
        yield FileChanged(
            path=name,
            kind=one.change.kind,
            state=one.state,
            conflict=one.conflict,
            before_bytes=text.before_bytes if text is not None else None,
            after_bytes=text.after_bytes if text is not None else None,
            binary=text is not None and text.binary,
            diff=text.diff if text is not None else "",
        )


def _not_covered(run: Run, snapshots: Snapshots) -> Iterator[FileNotCovered]:
    """Yield paths excluded from the run's snapshots, and whether they changed during the run."""
    names = [bytes.fromhex(taken.snapshot) for taken in snapshots_of(run) if taken.snapshot]
    if not names:
        return
    before = {one.path: one for one in snapshots.not_covered(names[0])}
    after = {one.path: one for one in snapshots.not_covered(names[-1])}
    for path in sorted(before.keys() | after.keys()):
        was, now = before.get(path), after.get(path)
        one = now or was
        assert one is not None, "it is in one of them"
        yield FileNotCovered(path=path, why=one.why, changed=_mark(was) != _mark(now))


def _mark(one: NotCovered | None) -> str:
    return "" if one is None else one.mark


def _problem(refused: CannotUndo) -> Problem:
    status = {"file_not_changed": 404, "snapshot_gone": 410}.get(refused.code, 409)
    return Problem(status, str(refused), code=refused.code)
