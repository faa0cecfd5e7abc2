"""The client's calls for memory."""

from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any, TypeVar

from holdfast.client.client import Client
from holdfast.client.exchange import ClientRequest
from holdfast.features.memory.bodies import (
    MemoryChangeShown,
    MemoryForgotten,
    MemoryHistory,
    MemoryList,
    MemoryShown,
)

_Body = TypeVar("_Body")


class MemoryCalls:
    """Memories on a server. A body names the memory: its scope, and its workspace or chat."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self) -> MemoryList:
        """Get all memories with their proposals."""
        return await self._client.get("/v1/memory", MemoryList)

    async def history(self, place: Mapping[str, str]) -> Sequence[MemoryChangeShown]:
        """Get the changes of a memory, newest first."""
        return (await self._client.get("/v1/memory/history", MemoryHistory, query=dict(place))).data

    async def propose(self, body: Mapping[str, Any]) -> MemoryShown:
        """Propose a line for the document."""
        return await self._post("propose", body, MemoryShown)

    async def decide(self, body: Mapping[str, Any]) -> MemoryShown:
        """Accept and reject proposals."""
        return await self._post("decide", body, MemoryShown)

    async def roll_back(self, body: Mapping[str, Any]) -> MemoryShown:
        """Restore an earlier state."""
        return await self._post("rollback", body, MemoryShown)

    async def forget(self, body: Mapping[str, Any]) -> MemoryForgotten:
        """Remove a memory, or the lines with a text, and its history."""
        return await self._post("forget", body, MemoryForgotten)

    async def edit(self, body: Mapping[str, Any]) -> MemoryShown:
        """Replace the text of a document or a note."""
        return await self._client.send(
            ClientRequest("PUT", "/v1/memory", dict(body), token_hex(16)), MemoryShown
        )

    async def _post(self, change: str, body: Mapping[str, Any], kind: type[_Body]) -> _Body:
        return await self._client.post(f"/v1/memory/{change}", dict(body), kind, once=token_hex(16))
