"""A notifier for tasks that wait for a condition, and the gates that scripts wait at."""

import asyncio
import threading
from collections.abc import Callable

_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class Notifier:
    """Lets tasks of any thread's event loop wait until a condition holds, without polling."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[_Waiter] = []

    def notify(self) -> None:
        """Make every waiter check its condition again."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            loop.call_soon_threadsafe(_wake, future)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; code that changes what it reads calls `notify` afterwards."""
        loop = asyncio.get_running_loop()
        while True:
            future: asyncio.Future[None] = loop.create_future()
            waiter = (loop, future)
            with self._lock:
                self._waiting.append(waiter)
            # Registered before the check, so that a change in another thread can't be missed.
            try:
                if condition():
                    return
                await future
            finally:
                with self._lock:
                    if waiter in self._waiting:
                        self._waiting.remove(waiter)


class Gate:
    """A point in a script that a test opens; it also tells the test when a script has reached it."""

    def __init__(self) -> None:
        self._notifier = Notifier()
        self._open = False
        self._arrivals = 0

    @property
    def is_open(self) -> bool:
        """Whether scripts pass without waiting."""
        return self._open

    @property
    def arrivals(self) -> int:
        """How many scripts have reached this gate so far."""
        return self._arrivals

    def open(self) -> None:
        """Let every script pass, now and later; safe to call from any thread."""
        self._open = True
        self._notifier.notify()

    async def reached(self, times: int = 1) -> None:
        """Wait until scripts have reached this gate this many times."""
        await self._notifier.until(lambda: self._arrivals >= times)

    async def passed(self) -> None:
        """Reach the gate and wait until it is open."""
        self._arrivals += 1
        self._notifier.notify()
        await self._notifier.until(lambda: self._open)
