"""The folders that a caller's key can choose as a workspace."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from starlette.requests import Request

from holdfast import events as e
from holdfast.api.operation import Operation
from holdfast.folds.rows import RunRow, SessionRow
from holdfast.folds.session import Session
from holdfast.interfaces.journal import Store
from holdfast.runner.asks import ApprovalVerdict, AskAnswer
from holdfast.sandbox.quarantine import readable
from holdfast.server.access.auth import KeyRing
from holdfast.server.access.caller import caller_name
from holdfast.server.problems import Problem, bad_request

_Endpoint: TypeAlias = Callable[[Request], Awaitable[Any]]
_States: TypeAlias = Callable[[str], Awaitable[Session]]  # of sessions, by id


class WorkspaceAccess:
    """Keys with the scope `admin` can choose any folder; others only the given ones and their subfolders.

    The same holds for operations that change a run or session, or that show its files.
    """

    def __init__(self, keys: KeyRing, folders: Sequence[Path], *, store: Store, states: _States) -> None:
        self._keys = keys
        self._folders = folders
        self._store = store
        self._states = states

    def guarded(
        self, operations: Iterable[Operation], endpoints: Mapping[str, _Endpoint]
    ) -> dict[str, _Endpoint]:
        """The endpoints; each operation in a workspace first checks that the caller can choose it."""
        acting = {one.endpoint for one in operations if one.in_workspace}
        return {
            name: partial(self._guarded, endpoint) if name in acting else endpoint
            for name, endpoint in endpoints.items()
        }

    async def _guarded(self, endpoint: _Endpoint, request: Request) -> Any:
        params = request.path_params
        if "run_id" not in params:
            await self.check_session(params["session_id"])
        elif (row := await self._store.run(params["run_id"])) is not None:
            await self.check_run(row)
        return await endpoint(request)

    async def check_run(self, row: RunRow) -> None:
        """Raise a Problem unless the caller can choose the workspaces of the run and of its session."""
        if self._is_admin():
            return
        found = await self._store.read(row.session_id, after=row.first_seq - 1, limit=1)
        queued = [one.event.settings for one in found if isinstance(one.event, e.RunQueued)]
        session = await self._store.session(row.session_id)
        for folder in {one.workspace for one in (*queued, session) if one is not None}:
            await self.allowed(folder)

    async def check_answer(self, row: RunRow, answer: AskAnswer) -> None:
        """Raise a Problem unless the answer decides one action, or the caller can choose the run's workspace.

        Text goes to the model, and a lasting choice allows later actions.
        """
        match answer:
            case ApprovalVerdict(choice="once" | "deny", reason="", steps=()):
                return
            case _:
                await self.check_run(row)

    async def check_session(self, session_id: str) -> None:
        """Raise a Problem unless the caller can choose the workspaces of the session and its runs.

        Those are its open runs and its newest one, whose workspace an approval mode is for.
        """
        if self._is_admin() or (row := await self._store.session(session_id)) is None:
            return
        state = await self._states(session_id)
        for folder in {row.workspace, state.folder, *(run.settings.workspace for run in state.open_runs)}:
            await self.allowed(folder)

    async def for_run(self, session_id: str, folder: str) -> str:
        """The workspace of a run: the given folder, or its session's; empty if neither names one.

        Raises a Problem if the caller can't choose it.
        """
        if folder or not session_id:
            return await self.existing(folder)
        row = await self._store.session(session_id)
        return await self.of_session(row) if row is not None else ""

    async def of_session(self, row: SessionRow) -> str:
        """The folder that the session was created with; raises a Problem if the caller can't choose it."""
        real = await self.existing(row.workspace)
        if real == row.workspace:
            return real
        raise Problem(
            409,
            f"The session's workspace {row.workspace[:200]} now leads through a link, so it might be "
            "another folder. Set 'workspace' to choose the folder",
            code="workspace_moved",
            param="workspace",
        )

    async def allowed(self, folder: str) -> str:
        """Return the folder's real path, or an empty name as it is; raises a Problem if it isn't allowed.

        Only the real path is ever opened, so a link that is made later leads nowhere.
        """
        if not checked_workspace(folder):
            return folder
        real, is_listed = await asyncio.to_thread(self._resolved, folder)
        if is_listed or self._is_admin():
            return real
        raise Problem(
            403,
            f"This key can't use the workspace {readable(folder)[:200]}. Use a key with the scope "
            "'admin', or add the folder to `server.workspaces` in the server's configuration",
            code="workspace_not_allowed",
            param="workspace",
        )

    async def existing(self, folder: str) -> str:
        """Return the folder as `allowed` does; also raises a Problem if there's no such folder."""
        real = await self.allowed(folder)
        if real and not await asyncio.to_thread(_is_folder, Path(real)):
            raise bad_request(f"'workspace' isn't a folder on the server: {folder[:200]}", param="workspace")
        return real

    def _is_admin(self) -> bool:
        return "admin" in self._keys.scopes_of(caller_name())

    def _resolved(self, folder: str) -> tuple[str, bool]:
        """The real path, and whether every key can choose it. Blocks."""
        real = Path(os.path.realpath(folder))
        return str(real), any(real.is_relative_to(os.path.realpath(one)) for one in self._folders)


def checked_workspace(folder: str) -> str:
    """Return the folder if its path is valid or empty; raises a Problem otherwise."""
    if folder and (not folder.startswith("/") or "\0" in folder):
        raise bad_request("'workspace' must be an absolute path", param="workspace")
    return folder


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False  # its name is too long, or a parent can't be read
