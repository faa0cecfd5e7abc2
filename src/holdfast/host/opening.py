"""A value that is made in a thread once the program serves, so that the start doesn't wait for it."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from holdfast.tools.offload import offload

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Opening(Generic[T]):
    """The value, once it's there; tasks and threads can wait for it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: Future[T] = Future()
        self._is_over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin to make it; once is enough."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="open tools")

    async def _run(self) -> None:
        try:
            made = await offload(self._make)
        except OSError as error:
            self._made.set_exception(error)
        except Exception as error:  # noqa: BLE001  # whoever waits gets it
            _log.exception("the tools can't be opened, so no run begins")
            text = f"the tools can't be opened because of a bug: {error!r}; Holdfast's log has the details"
            self._made.set_exception(OSError(text))
        else:
            self._made.set_result(made)
        self._is_over.set()

    async def wait(self) -> T:
        """The value; raises OSError if making it failed."""
        await self._is_over.wait()
        return self._made.result()

    async def succeeds(self) -> bool:
        """Wait; False if making it failed, which `wait` reports."""
        await self._is_over.wait()
        return self.is_made

    def result(self) -> T:
        """The same for a thread: blocks."""
        return self._made.result()

    @property
    def is_made(self) -> bool:
        """Whether the value is there."""
        made = self._made
        return made.done() and not made.cancelled() and made.exception() is None

    @property
    def has_failed(self) -> bool:
        """Whether making it failed, so that it will never be there."""
        made = self._made
        return made.done() and not made.cancelled() and made.exception() is not None

    async def aclose(self) -> None:
        """Let go of everyone who waits."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        self._made.cancel()
        self._is_over.set()
