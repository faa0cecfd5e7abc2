"""Stores that count looks for what is to be purged, or of which one log is damaged."""

import asyncio
from collections.abc import Callable, Sequence

from holdfast import events as e
from holdfast.folds.rows import SessionRow
from holdfast.interfaces.journal import Record
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.values import LogEnd
from stores import MemoryStore


class OneIsBad(MemoryStore):
    """One session's log cannot be read, or it cannot be removed; `are_gone` is set when all others are."""

    def __init__(self, *, unread: Exception | None = None, unremoved: Exception | None = None) -> None:
        self.disk = MemoryDisk()
        super().__init__(self.disk)
        self.unread, self.unremoved = unread, unremoved
        self.are_gone = asyncio.Event()

    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        if self.unread is not None and session_id == "bad":
            raise self.unread
        return await super().read(session_id, after=after, limit=limit)

    async def purge(
        self, session_id: str, *, only: LogEnd | None = None, then: Callable[[], None] | None = None
    ) -> bool:
        if self.unremoved is not None and session_id == "bad":
            raise self.unremoved
        gone = await super().purge(session_id, only=only, then=then)
        if self.disk.logs.keys() <= ({"bad"} if self.unremoved else set()):
            self.are_gone.set()
        return gone

    async def put_run(self, session_id: str, *ends: e.Input) -> None:
        said = e.MessageAccepted(at_ms=1, message_id="m", text="hi")
        queued = e.RunQueued(at_ms=1, run_id=f"run_{session_id}", message_id="m")
        await self.append(session_id, [e.SessionCreated(at_ms=1, epoch="e"), said, queued, *ends])


class Counting(MemoryStore):
    """Counts how often deleted sessions and blobs are looked through."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        super().__init__(disk)
        self.looks: list[str] = []
        self.has_looked = asyncio.Event()

    async def sessions_to_purge(self, *, source: str, before_ms: int) -> Sequence[SessionRow]:
        self.looks.append("sessions")
        self.has_looked.set()
        return await super().sessions_to_purge(source=source, before_ms=before_ms)

    async def sweep_blobs(self, *, unnamed_for_s: float = 86_400.0) -> int:
        swept = await super().sweep_blobs(unnamed_for_s=unnamed_for_s)
        self.looks.append("blobs")
        self.has_looked.set()
        return swept

    async def until(self, look: str, count: int) -> None:
        while self.looks.count(look) < count:
            self.has_looked.clear()
            await self.has_looked.wait()
