"""Blocking work in a thread of its own, so that a stuck disk holds nobody else's thread."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LINGER_S = 5.0


async def offload(work: Callable[[], T], *, linger_s: float = LINGER_S) -> T:
    """Run it in a thread; a cancellation is passed on when the work is over, or after the lingering."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle_with(call: Callable[[], None]) -> None:
        try:
            loop.call_soon_threadsafe(call)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    def body() -> None:
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 - it is raised where the work is awaited
            caught = error
            settle_with(lambda: future.set_exception(caught))
        else:
            settle_with(lambda: future.set_result(value))

    threading.Thread(target=body, name="holdfast-offload", daemon=True).start()
    await settle(future, within_s=linger_s)
    return future.result()


async def settle(future: asyncio.Future[T], *, within_s: float) -> None:
    """Wait until the future is done; once cancelled, wait at most so long, then raise the cancellation."""
    loop = asyncio.get_running_loop()
    cancelled: asyncio.CancelledError | None = None
    deadline_s: float | None = None
    while not future.done():
        left_s = None if deadline_s is None else deadline_s - loop.time()
        if left_s is not None and left_s <= 0:
            break
        try:
            await asyncio.wait([future], timeout=left_s)
        except asyncio.CancelledError as stop:
            # Cancelled again and again, it still waits to the same deadline.
            cancelled = cancelled or stop
            deadline_s = deadline_s or loop.time() + within_s
    if cancelled is not None:
        if future.done() and not future.cancelled():
            future.exception()  # looked at, so that nobody calls it forgotten
        raise cancelled
