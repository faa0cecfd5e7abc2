"""Runs blocking work in its own thread, so that a stuck disk does not use up a shared pool."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LINGER_S = 5.0


async def offload(
    work: Callable[[], T],
    *,
    linger_s: float = LINGER_S,
    give_up: threading.Event | None = None,
    undo: Callable[[T], None] | None = None,
) -> T:
    """Run it in a thread; a cancellation is raised when the work is over, or after the linger time.

    When cancelled, it sets `give_up` for the work to see, and undoes what the work still returns.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle_with(call: Callable[[], None]) -> None:
        try:
            loop.call_soon_threadsafe(call)
        except RuntimeError:
            return  # the loop is closed, so no one is waiting

    def body() -> None:
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 - it is raised where the work is awaited
            caught = error
            settle_with(lambda: future.set_exception(caught))
        else:
            settle_with(lambda: future.set_result(value))

    threading.Thread(target=body, name="holdfast-offload", daemon=True).start()
    try:
        await asyncio.wait([future])
    except asyncio.CancelledError:
        if give_up is not None:
            give_up.set()
        if undo is not None:
            future.add_done_callback(lambda done: done.exception() or undo(done.result()))
        await settle(future, within_s=linger_s)
        raise
    return future.result()


async def settle(future: asyncio.Future[T], *, within_s: float) -> None:
    """Wait for the future, up to a limit and through any cancellation, which is raised afterwards."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    cancelled: asyncio.CancelledError | None = None
    while not future.done() and (left_s := deadline_s - loop.time()) > 0:
        try:
            await asyncio.wait([future], timeout=left_s)
        except asyncio.CancelledError as stop:
            cancelled = stop
    if future.done() and not future.cancelled():
        future.exception()  # retrieved, so that asyncio doesn't report it
    if cancelled is not None:
        raise cancelled
