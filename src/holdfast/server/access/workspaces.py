"""Which folders the caller's key can choose as a workspace."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from holdfast.server.access.auth import KeyRing
from holdfast.server.access.caller import caller_name
from holdfast.server.problems import Problem, bad_request


class WorkspaceAccess:
    """Keys with the scope `admin` can choose any folder; others only the given ones and their subfolders."""

    def __init__(self, keys: KeyRing, folders: Sequence[Path]) -> None:
        self._keys = keys
        self._folders = folders

    async def allowed(self, folder: str) -> str:
        """Return the folder, or an empty name as it is; raises a Problem if the caller can't choose it."""
        if not checked_workspace(folder) or "admin" in self._keys.scopes_of(caller_name()):
            return folder
        if await asyncio.to_thread(self._holds, folder):
            return folder
        raise Problem(
            403,
            f"This key can't use the workspace {folder[:200]}. Use a key with the scope 'admin', or add the "
            "folder to `server.workspaces` in the server's configuration",
            code="workspace_not_allowed",
            param="workspace",
        )

    async def existing(self, folder: str) -> str:
        """Return the folder as `allowed` does; also raises a Problem if there's no such folder."""
        if await self.allowed(folder) and not await asyncio.to_thread(_is_folder, Path(folder)):
            raise bad_request(f"'workspace' isn't a folder on the server: {folder[:200]}", param="workspace")
        return folder

    def _holds(self, folder: str) -> bool:
        """Compares real paths, so a link can't lead out of an allowed folder. Blocks."""
        real = Path(os.path.realpath(folder))
        return any(real.is_relative_to(os.path.realpath(one)) for one in self._folders)


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
