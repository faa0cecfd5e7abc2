"""A run's log on a store whose appends wait for a gate."""

import asyncio
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from holdfast import events as e
from holdfast.agent.runlog import RunLog
from holdfast.interfaces.clock import Clock
from stores import MemoryStore


class GatedStore(MemoryStore):
    """A store whose appends of runs wait for a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.appends: list[Sequence[e.Event]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._asked = asyncio.Event()

    @override
    async def append_run(self, session_id: str, events: Sequence[e.Event], **rest: Any) -> Any:
        self.appends.append(events)
        self._asked.set()
        await self.gate.wait()
        return await super().append_run(session_id, events, **rest)

    @property
    def kinds(self) -> list[list[str]]:
        """The types of the events of each append."""
        return [[type(event).__name__ for event in events] for events in self.appends]

    async def until_asked(self) -> None:
        """Wait for the first append of a run."""
        await self._asked.wait()


async def run_log(store: GatedStore, clock: Clock, *, kind: type[RunLog] = RunLog) -> RunLog:
    """The log of a run that has been queued."""
    now = clock.now_ms()
    message = e.MessageAccepted(at_ms=now, message_id="m", text="hi")
    await store.append(
        "s",
        [e.SessionCreated(at_ms=now, epoch="1"), message, e.RunQueued(at_ms=now, run_id="r", message_id="m")],
    )
    return kind(store, clock, run=("s", "r"), fence=await store.claim("s"))
