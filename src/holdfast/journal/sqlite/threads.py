"""A few named threads for calls that block on the disk; closing them doesn't block the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from holdfast.interfaces.journal import StoreClosed

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Runs calls outside the event loop; if a caller is cancelled, its thread doesn't wait for it."""

    def __init__(self, count: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._running: set[Future[Any]] = set()
        self._closed = False

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return or raise what the call does; raises StoreClosed after `close`."""
        if self._closed:
            raise StoreClosed("the store is closed")
        running = self._pool.submit(call, *args, **kwargs)
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return await asyncio.wrap_future(running)

    async def close(self) -> None:
        """Wait for running calls, then end the threads."""
        self._closed = True
        while running := list(self._running):
            await asyncio.wait([asyncio.wrap_future(future) for future in running])
        self._pool.shutdown(wait=False)
