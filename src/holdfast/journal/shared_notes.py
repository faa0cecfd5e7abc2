"""Notes that every node keeps a copy of in memory, such as keys: who changes one tells the others.

A store that belongs to one process needs none of this, and nothing is written or asked there.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from secrets import token_bytes, token_hex

from typing_extensions import override

from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import JournalError, Notes, Store

_log = logging.getLogger(__name__)

LOOK_S = 1.5
CLUSTER_NOTE = "cluster/secret"
# A node that dies between a change and telling of it leaves the others with an old copy for so many looks.
LOOKS_MAX = 20


class SharedNotes(Notes):
    """The notes of one kind; each change renews a mark, which other nodes look at every 1.5 s.

    Removing a note fails if the others can't be told: a key that was revoked must not work elsewhere. Other
    changes reach the others half a minute later then.
    """

    def __init__(self, store: Store, kind: str) -> None:
        self._store = store
        self._mark = f"changed/{kind}"

    @property
    def is_shared(self) -> bool:
        """Whether other nodes may change these notes."""
        return bool(self._store.node.name)

    async def watch(self, clock: Clock, reread: Callable[[], Awaitable[None]]) -> None:
        """Call `reread` whenever another node may have changed something; returns at once if nobody can."""
        seen: bytes | None = None
        looks = 0
        while self.is_shared:
            await clock.sleep_s(LOOK_S)
            looks += 1
            try:
                mark = await self._store.note(self._mark)
                if mark == seen and looks < LOOKS_MAX:
                    continue
                await reread()
            except JournalError as error:
                _log.debug("what other nodes have changed can't be read yet: %s", error)
            else:
                seen, looks = mark, 0

    async def _tell(self) -> None:
        if self.is_shared:
            await self._store.put_note(self._mark, token_hex(8).encode())

    async def _try_to_tell(self) -> None:
        try:
            await self._tell()
        except JournalError as error:
            _log.warning("other nodes will see this change later: %s", error)

    @override
    async def note(self, key: str) -> bytes | None:
        return await self._store.note(key)

    @override
    async def notes(self, prefix: str) -> Mapping[str, bytes]:
        return await self._store.notes(prefix)

    @override
    async def put_note(self, key: str, value: bytes) -> None:
        await self._store.put_note(key, value)
        await self._try_to_tell()

    @override
    async def swap_note(self, key: str, value: bytes, *, expected: bytes | None) -> bool:
        is_swapped = await self._store.swap_note(key, value, expected=expected)
        if is_swapped:
            await self._try_to_tell()
        return is_swapped

    @override
    async def drop_note(self, key: str) -> None:
        await self._store.drop_note(key)
        await self._tell()


async def cluster_secret(notes: Notes) -> bytes:
    """Return the secret of all servers that share the store. Created on first use."""
    while (found := await notes.note(CLUSTER_NOTE)) is None:
        await notes.swap_note(CLUSTER_NOTE, token_bytes(32), expected=None)
    return found
