"""What a disk still has of one file after a power cut."""

import random
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, field

SECTOR_BYTES = 512

Loss = Literal["all", "some", "torn"]


class _Write(Struct, frozen=True):
    offset: int
    data: bytes

    def apply(self, content: bytearray) -> None:
        if len(content) < self.offset:
            content.extend(bytes(self.offset - len(content)))
        content[self.offset : self.offset + len(self.data)] = self.data

    def sectors(self) -> "Iterator[_Write]":
        start = 0
        while start < len(self.data):
            # Cut at the disk's own sector boundaries, wherever the write begins.
            end = start + SECTOR_BYTES - (self.offset + start) % SECTOR_BYTES
            yield _Write(self.offset + start, self.data[start:end])
            start = end


class _Truncate(Struct, frozen=True):
    size: int

    def apply(self, content: bytearray) -> None:
        del content[self.size :]
        content.extend(bytes(self.size - len(content)))


class DiskImage(Struct):
    """The durable content of a file (none: no such file), and what has been done to it since.

    `ghost` is what comes back if a deletion, or a deletion and a new file of the same name, is lost.
    """

    durable: bytearray | None
    exists: bool
    ghost: bytes | None = None
    pending: list[_Write | _Truncate] = field(default_factory=list[_Write | _Truncate])

    def created(self) -> None:
        """The file has been opened and was not there before."""
        self.exists = True

    def written(self, offset: int, data: bytes) -> None:
        """Bytes were written and not synced yet."""
        self.pending.append(_Write(offset, data))

    def truncated(self, size: int) -> None:
        """The size was changed and not synced yet."""
        self.pending.append(_Truncate(size))

    def synced(self) -> None:
        """Everything so far is durable, the file's name included."""
        content = self.durable if self.durable is not None else bytearray()
        for operation in self.pending:
            operation.apply(content)
        self.durable, self.ghost = content, None
        self.pending.clear()

    def directory_synced(self) -> None:
        """The file's name is durable, or its absence."""
        self.ghost = None
        if self.exists and self.durable is None:
            self.durable = bytearray()

    def sync_failed(self) -> None:
        """Pending writes will never be durable: the kernel has dropped them."""
        self.pending.clear()

    def deleted(self) -> None:
        """The name is gone, but its directory has not been synced."""
        if self.durable is not None:
            self.ghost = bytes(self.durable)
        self.durable, self.exists = None, False
        self.pending.clear()

    def survivor(self, rng: random.Random, loss: Loss) -> bytes | None:
        """The content after a power cut, or nothing if there is no such file."""
        kept = [] if loss == "all" else list(self._arrived(rng, loss))
        if self.durable is None and not kept:
            comes_back = loss == "all" or rng.random() < 1 / 2
            return self.ghost if comes_back else None
        content = bytearray(self.durable or b"")
        for operation in kept:
            operation.apply(content)
        return bytes(content)

    def _arrived(self, rng: random.Random, loss: Loss) -> Iterator[_Write | _Truncate]:
        for operation in self.pending:
            if rng.random() < 1 / 2:
                continue
            if loss == "torn" and isinstance(operation, _Write) and rng.random() < 1 / 2:
                yield from (sector for sector in operation.sectors() if rng.random() < 1 / 2)
            else:
                yield operation
