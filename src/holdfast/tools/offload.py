"""Blocking work in threads."""

import asyncio
import threading
from collections.abc import Callable, Hashable
from contextvars import copy_context
from typing import Any, TypeVar

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

    The thread is its own, so that a stuck disk doesn't use up a shared pool.
    When cancelled, it sets `give_up` for the work to see, and undoes what the work still returns.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def call_loop(call: Callable[[], None]) -> None:
        try:
            loop.call_soon_threadsafe(call)
        except RuntimeError:
            return  # the loop is closed, so no one is waiting

    def body() -> None:
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 - it is raised where the work is awaited
            caught = error
            call_loop(lambda: future.set_exception(caught))
        else:
            call_loop(lambda: future.set_result(value))

    threading.Thread(target=copy_context().run, args=(body,), name="holdfast-offload", daemon=True).start()
    try:
        await asyncio.wait([future])
    except asyncio.CancelledError:
        if give_up is not None:
            give_up.set()
        if undo is not None:
            future.add_done_callback(lambda done: done.exception() or undo(done.result()))
        await join(future, within_s=linger_s)
        raise
    return future.result()


async def join(future: asyncio.Future[T], *, within_s: float) -> None:
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


class SharedReads:
    """Reads that block; callers that ask the same question at the same time share one read.

    A read begins after all callers that share it have asked, so none of them gets an outdated answer.
    """

    def __init__(self) -> None:
        self._reading: set[Hashable] = set()
        self._next: dict[Hashable, tuple[Callable[[], Any], asyncio.Future[Any]]] = {}

    async def shared(self, question: Hashable, read: Callable[[], T]) -> T:
        """Return the result of `read`; the question must contain everything that it depends on."""
        waiting = self._next.get(question)
        if waiting is None:
            loop = asyncio.get_running_loop()
            waiting = self._next[question] = read, loop.create_future()
            if question not in self._reading:
                self._reading.add(question)
                loop.call_soon(self._read_next, question)  # after those who ask in the same step of the loop
        return await asyncio.shield(waiting[1])

    def _read_next(self, question: Hashable) -> None:
        if (waiting := self._next.pop(question, None)) is None:
            self._reading.discard(question)
            return
        read, answer = waiting

        def hand_out(done: asyncio.Future[Any]) -> None:
            self._read_next(question)
            if not answer.done():
                _copy(done, answer)

        asyncio.get_running_loop().run_in_executor(None, read).add_done_callback(hand_out)


def _copy(done: asyncio.Future[Any], answer: asyncio.Future[Any]) -> None:
    if done.cancelled():
        answer.cancel()
    elif (error := done.exception()) is not None:
        answer.set_exception(error)
        answer.exception()  # looked at, because the callers may be gone
    else:
        answer.set_result(done.result())
