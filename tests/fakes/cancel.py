"""Cancellation at every await, by count-down.

The loop that tries every suspension:

    for nth in count(1):
        attempt = CancelAt(scenario(), nth)
        task = await attempt.in_own_task()
        check_nothing_is_left(task)
        if not attempt.reached:
            break                        # the scenario has fewer suspensions: every one was tried
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from typing import Generic, TypeVar

T = TypeVar("T")


class CancelAt(Awaitable[T], Generic[T]):
    """Awaits a coroutine, and cancels the task that does so at its nth suspension.

    Only suspensions of that task count, not those of tasks that the coroutine starts. With several numbers
    it cancels at each of them, as an impatient caller does who cancels again during the clean-up.
    """

    def __init__(self, coro: Coroutine[object, object, T], nth: int, *more: int) -> None:
        self._coro = coro
        self._at = frozenset({nth, *more})
        self.suspensions = 0

    @property
    def reached(self) -> bool:
        """Whether the coroutine reached the last suspension that was to be cancelled."""
        return self.suspensions >= max(self._at)

    def __await__(self) -> Generator[object, object, T]:
        # Not `yield from`: each suspension must be seen, and throw and close must reach the coroutine.
        inner = self._coro.__await__()
        try:
            yielded = next(inner)
            while True:
                self._suspended()
                try:
                    sent = yield yielded
                except GeneratorExit:
                    inner.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - whatever is thrown in belongs to the coroutine
                    yielded = inner.throw(error)
                else:
                    yielded = inner.send(sent)
        except StopIteration as done:
            outcome: T = done.value
            return outcome

    async def in_own_task(self) -> "asyncio.Task[T]":
        """Run it in its own task, and return that task when it is done, however it ended."""
        task = asyncio.get_running_loop().create_task(self._awaited())
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            # A caller that is cancelled must not leave the task behind.
            task.cancel()
            await asyncio.wait([task])
            raise
        return task

    async def _awaited(self) -> T:
        return await self

    def _suspended(self) -> None:
        self.suspensions += 1
        if self.suspensions in self._at:
            task = asyncio.current_task()
            assert task is not None, "a coroutine suspends inside a task"
            # Cancelling before the future is handed to the task makes the task cancel that very future.
            task.cancel()
