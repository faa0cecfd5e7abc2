"""A store that loses its connection in the middle of a write."""

import asyncio
from collections.abc import Sequence
from typing import Any

from holdfast.events import Event
from holdfast.interfaces.journal import Fence, JournalError, OutcomeUnknown, Store, StoreUnreachable
from stores import WrappedStore

AWAY = "the database is away"


class CutStore(WrappedStore):
    """A store that loses its connection in the middle of one write of a run, and has it back when told."""

    def __init__(
        self, inner: Store, *, nth: int = 1, lands: bool, says: type[JournalError] = OutcomeUnknown
    ) -> None:
        super().__init__(inner)
        self._left = nth
        self._lands = lands
        self._says = says
        self.is_back = asyncio.Event()
        self.is_back.set()
        self.was_cut = asyncio.Event()

    @property
    def trouble(self) -> JournalError | None:
        return None if self.is_back.is_set() else StoreUnreachable(AWAY)

    async def writable(self) -> None:
        await self.is_back.wait()

    async def claim(self, session_id: str, *, to_settle: bool = False) -> Fence:
        if self.trouble is not None:
            raise self.trouble
        return await self._inner.claim(session_id, to_settle=to_settle)

    async def append_run(self, session_id: str, events: Sequence[Event], **rest: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.trouble is not None:
            raise self.trouble
        self._left -= 1
        if self._left:
            return await self._inner.append_run(session_id, events, **rest)
        if self._lands:
            await self._inner.append_run(session_id, events, **rest)
        self.is_back.clear()
        self.was_cut.set()
        raise self._says("the connection broke before the database answered")
