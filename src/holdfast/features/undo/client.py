"""The client's calls for the changes of runs."""

import msgspec

from holdfast.client.client import Client, in_path
from holdfast.features.undo.operations import RunChanges, RunUndone, UndoPreviewed, UndoRequest


class ChangeCalls:
    """Changes of runs on a server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def show(self, run_id: str) -> RunChanges:
        """Get a run's changes to its workspace."""
        return await self._client.get(f"/v1/runs/{in_path(run_id)}/changes", RunChanges)

    async def preview(self, run_id: str, request: UndoRequest) -> UndoPreviewed:
        """Preview which files and runs an undo would change."""
        body = msgspec.to_builtins(request)
        return await self._client.post(f"/v1/runs/{in_path(run_id)}/undo/preview", body, UndoPreviewed)

    async def undo(self, run_id: str, request: UndoRequest) -> RunUndone:
        """Undo a run. Raises Refused (409) if that would overwrite other changes."""
        body = msgspec.to_builtins(request)
        return await self._client.post(f"/v1/runs/{in_path(run_id)}/undo", body, RunUndone)

    async def redo(self, run_id: str, request: UndoRequest) -> RunUndone:
        """Reverse the newest undo of the run."""
        body = msgspec.to_builtins(request)
        return await self._client.post(f"/v1/runs/{in_path(run_id)}/redo", body, RunUndone)
