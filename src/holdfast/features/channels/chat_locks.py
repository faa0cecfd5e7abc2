"""Locks that serialize sends per chat."""

import asyncio
from weakref import WeakValueDictionary


class ChatLocks:
    """A lock for each chat with an active sender."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, chat: str) -> asyncio.Lock:
        """Return the lock of this chat. Keep a reference while you use it."""
        lock = self._locks.get(chat)
        if lock is None:
            lock = self._locks[chat] = asyncio.Lock()
        return lock
