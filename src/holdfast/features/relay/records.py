"""The records of relayed calls: one small event for each, in one log for each API key and day."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import TypeAlias

from holdfast import events as e
from holdfast.interfaces.ids import new_epoch
from holdfast.interfaces.journal import Appended, IfSessionKnown, IfSessionNew, Journal, JournalError
from holdfast.values import RELAY

_log = logging.getLogger(__name__)

WAITING_MAX = 10_000  # records that wait for a store that takes no writes; beyond this, the oldest are lost
LOGS_MAX = 100  # of one key and day: whenever one is deleted, the next records go to another

_Waiting: TypeAlias = tuple[e.RelayCalled, asyncio.Future[None]]


class CallRecords:
    """Writes records. Records that arrive during a write are batched into the next one."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._waiting: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None

    async def add(self, record: e.RelayCalled) -> None:
        """Return once the record is on disk. If the store refuses it, it's retried with the next one.

        The record is written even if the caller is cancelled.
        """
        tried: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((record, tried))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(), name="write records of relayed calls")
        await tried

    async def close(self) -> None:
        """Wait for pending writes, and retry refused records once."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
        if self._waiting:
            await self._write()

    async def _write(self) -> None:
        """Write until nothing waits, or until the store refuses."""
        try:
            while self._waiting:
                some, self._waiting = self._waiting, []
                if left := await self._refused(some):
                    self._waiting = (left + self._waiting)[-WAITING_MAX:]
                    return
        finally:
            self._writing = None
            for _, tried in self._waiting:
                _resolve(tried)

    async def _refused(self, some: list[_Waiting]) -> list[_Waiting]:
        """Append these, and return those that the store refused."""
        groups: dict[tuple[str, str], list[_Waiting]] = {}
        for one in some:
            groups.setdefault((one[0].key, _day(one[0])), []).append(one)
        left: list[_Waiting] = []
        for (key, day), group in groups.items():
            try:
                await self._append(key, day, [record for record, _ in group])
            except JournalError as error:
                _log.warning("can't store the records of %d relayed calls yet: %s", len(group), error)
                left += group
                continue
            for _, tried in group:
                _resolve(tried)
        return left

    async def _append(self, key: str, day: str, records: Sequence[e.RelayCalled]) -> None:
        for nth in range(1, LOGS_MAX + 1):
            session_id = log_id(key, day, nth)
            done = await self._journal.append(session_id, records, when=[IfSessionKnown()])
            if isinstance(done, Appended):
                return
            title = f"Calls relayed for {key} on {day}"
            created = e.SessionCreated(at_ms=records[0].at_ms, epoch=new_epoch(), source=RELAY, title=title)
            done = await self._journal.append(session_id, [created, *records], when=[IfSessionNew()])
            if isinstance(done, Appended):
                return
            # It is deleted but not purged yet.
        raise JournalError(f"{LOGS_MAX} logs of relayed calls were deleted today")


def log_id(key: str, day: str, nth: int = 1) -> str:
    """The session that has the records of a key and day."""
    digest = sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"relay_{day}_{digest}" + (f"_{nth}" if nth > 1 else "")


def _day(record: e.RelayCalled) -> str:
    return datetime.fromtimestamp(record.at_ms / 1000, UTC).date().isoformat()


def _resolve(tried: asyncio.Future[None]) -> None:
    if not tried.done():
        tried.set_result(None)
