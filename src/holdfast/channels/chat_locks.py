"""One thing at a time in each chat, whoever sends it."""

import asyncio
from weakref import WeakValueDictionary


class ChatLocks:
    """A lock for each chat that someone sends to now."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, chat: str) -> asyncio.Lock:
        """The lock of this chat; keep it for as long as you use it."""
        lock = self._locks.get(chat)
        if lock is None:
            lock = self._locks[chat] = asyncio.Lock()
        return lock
