"""Where payloads are kept that are too large for an event."""

from typing import Protocol


class Blobs(Protocol):
    """Payloads too large for an event, named by the SHA-256 of their bytes.

    A blob is on disk before `put_blob` returns, and so before any event can name it. It is kept as long as an
    event of some session names it. A blob that no event names is removed after a while.
    """

    async def put_blob(self, data: bytes) -> str:
        """Store the bytes and return their name; equal bytes have equal names."""
        ...

    async def keep_blob(self, name: str) -> bool:
        """Like `put_blob`, for bytes that are already stored; False if they aren't."""
        ...

    async def blob(self, name: str) -> bytes | None:
        """The bytes, or None; raises StoreDamaged if they no longer match their name."""
        ...
