"""The runner behind an agent: opened by its first user, closed by its last."""

import asyncio
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from holdfast.embedding.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from holdfast.host.runtime import Runner


class _Opening(Struct):
    """One life of the runner; its own task opens and closes it, as some of its parts require."""

    loop: asyncio.AbstractEventLoop
    ready: "asyncio.Future[Runner]"
    unused: asyncio.Event = field(default_factory=asyncio.Event)
    users: int = 0
    task: asyncio.Task[None] | None = None
    beside: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])


class AgentRuntime:
    """Shares one runner among everybody who uses the agent at the same time."""

    def __init__(self, opened: "Callable[[], AbstractAsyncContextManager[Runner]]") -> None:
        self._opened = opened
        self._current: _Opening | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether somebody uses it now."""
        return self._current is not None

    @asynccontextmanager
    async def use(self) -> "AsyncGenerator[Runner]":
        """The runner; leaving closes it if nobody else uses it."""
        opening = self._join()
        opening.users += 1
        try:
            yield await asyncio.shield(opening.ready)
        finally:
            opening.users -= 1
            if not opening.users:
                await self._leave(opening)

    def spawn(self, work: "Callable[[Runner], Coroutine[Any, Any, None]]") -> None:
        """Do something beside the runs; it is cancelled when the runner closes."""
        opening = self._current
        if opening is not None:
            task = opening.loop.create_task(_beside(opening, work), name="beside an embedded agent")
            opening.beside.add(task)
            task.add_done_callback(opening.beside.discard)

    def _join(self) -> _Opening:
        loop = asyncio.get_running_loop()
        if self._current is None:
            opening = _Opening(loop, loop.create_future())
            before = self._closing if self._closing and not self._closing.done() else None
            opening.task = loop.create_task(self._serve(opening, before), name="embedded agent")
            self._current = opening
        if self._current.loop is not loop:
            raise ConfigurationError(
                "This agent is in use in another event loop. Make one agent for each event loop."
            )
        return self._current

    async def _leave(self, opening: _Opening) -> None:
        if self._current is opening:
            self._current = None
        self._closing = opening.task
        opening.unused.set()
        assert opening.task is not None, "an opening has its task"
        await asyncio.shield(opening.task)

    async def _serve(self, opening: _Opening, before: asyncio.Task[None] | None) -> None:
        """Hold the runner open. What goes wrong while it opens goes to those who wait for it."""
        if before is not None:
            await asyncio.wait({before})
        try:
            async with self._opened() as runner:
                opening.ready.set_result(runner)
                await opening.unused.wait()
                for task in opening.beside:
                    task.cancel()
                await asyncio.gather(*opening.beside, return_exceptions=True)
        except Exception as error:
            if opening.ready.done():
                raise
            opening.ready.set_exception(error)
            opening.ready.exception()  # a user that was cancelled meanwhile does not ask for it
            if self._current is opening:
                self._current = None


async def _beside(opening: _Opening, work: "Callable[[Runner], Coroutine[Any, Any, None]]") -> None:
    await work(await asyncio.shield(opening.ready))
