"""A process that dies at an append while people talk to it, and the one that comes after it.

Telegram, which can't be asked, and Slack's socket, where previews are messages, count down over every append.
What the other platforms add is between them and the log of the channel, so they count down over its appends.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NoReturn, TypeAlias

from typing_extensions import override

from agent.world import World
from fakes.crash import Crashed, CrashPoint
from features.channels.lab import LeapingClock
from holdfast import events as e
from holdfast.chaos.gates import Notifier
from holdfast.chaos.reply import ScriptedReply
from holdfast.features.channels.channel_log import channel_state
from holdfast.interfaces.journal import JournalError, Store
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.racing import race
from stores import MemoryStore

Process: TypeAlias = AbstractAsyncContextManager[World]
Talk: TypeAlias = Callable[[MemoryStore], Coroutine[Any, Any, None]]
NEVER = 10**9
PREVIEW_BEAT_S = 0.01


class MortalStore(MemoryStore):
    """A store whose process dies at an append, before it is written or just after; logs name the points.

    `clock` is that of the machine, which outlives the process.
    """

    def __init__(self, disk: MemoryDisk, crash: CrashPoint, *, after: bool, clock: LeapingClock) -> None:
        super().__init__(disk)
        self.clock = clock
        self.died = asyncio.Event()
        self._crash = crash
        self._after = after
        crash.die = self._die

    @override
    async def append(self, session_id: str, *args: Any, **kwargs: Any) -> Any:
        return await self._mortal(super().append, session_id, *args, **kwargs)

    @override
    async def append_run(self, session_id: str, *args: Any, **kwargs: Any) -> Any:
        return await self._mortal(super().append_run, session_id, *args, **kwargs)

    async def _mortal(self, call: Callable[..., Awaitable[Any]], log: str, *args: Any, **kwargs: Any) -> Any:
        when = "after" if self._after else "before"
        return await self._crash.around(call, log, when=when)(log, *args, **kwargs)

    def _die(self) -> NoReturn:
        self.died.set()
        raise Crashed


@dataclass(slots=True)
class Life:
    """One round of a count-down: a process that dies at the nth append, and one that doesn't."""

    disk: MemoryDisk
    crash: CrashPoint
    after: bool
    clock: LeapingClock = field(default_factory=LeapingClock)

    async def lived(self, process: Callable[[MortalStore], Process], talk: Talk) -> None:
        """The first process, until the talk ends or it dies."""
        await self._live(self.crash, process, talk)

    async def lived_again(self, process: Callable[[MortalStore], Process], talk: Talk) -> None:
        """The second one, if the first died."""
        if self.crash.has_crashed:
            await self._live(CrashPoint(NEVER), process, talk)

    async def _live(self, crash: CrashPoint, process: Callable[[MortalStore], Process], talk: Talk) -> None:
        store = MortalStore(self.disk, crash, after=self.after, clock=self.clock)
        with suppress(Crashed, JournalError, BaseExceptionGroup):
            async with process(store):
                talking = asyncio.create_task(talk(store))
                await race(talking, asyncio.create_task(store.died.wait()))
                if not talking.cancelled():
                    talking.result()


def lives(*, after: bool, log: str = "", at_least: int) -> Iterator[Life]:
    """A life for each append in turn, or for each to one log; the last one is whole."""
    for nth in count(1):
        crash = CrashPoint(nth, log)
        yield Life(MemoryDisk(), crash, after)
        if not crash.has_crashed:
            assert nth > at_least, "it hardly ever died"
            return


async def until_settled(store: Store, log: str) -> None:
    """Wait until the log says that nothing is awaited and nothing is to be sent."""
    async for _ in store.follow(log):
        state = await channel_state(store, log)
        if not state.awaited and not state.outbox.queues:
            return


async def accepted_in(disk: MemoryDisk, log: str) -> Counter[str]:
    """What became a message of a session, and how often."""
    store = MemoryStore(disk)
    accepted: Counter[str] = Counter()
    for session_id in (await channel_state(store, log)).chats:
        events = [record.event for record in await store.read(session_id)]
        accepted.update(event.text for event in events if isinstance(event, e.MessageAccepted))
    return accepted


async def states_in(disk: MemoryDisk, log: str) -> set[str]:
    """What became of the deliveries."""
    state = await channel_state(MemoryStore(disk), log)
    return {one.state for one in state.outbox.deliveries.values()}


@dataclass(frozen=True, slots=True)
class UntilShown:
    """A step of a model's script: say no more until the chat shows that an answer is being written."""

    changed: Notifier
    is_shown: Callable[[], bool]

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Wait for it."""
        del reply
        await self.changed.until(self.is_shown)
