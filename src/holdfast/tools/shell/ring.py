"""The last stretch of an output without end, in a file of fixed size that outlives the process."""

import os
import struct
from pathlib import Path

RING_BYTES = 1024 * 1024
_HEADER = struct.Struct("<Q")


class Ring:
    """A circular file whose first eight bytes say how much was ever written.

    One thread writes; anyone reads. A reader that is overtaken gets text with a seam, never an error.
    """

    def __init__(self, path: Path, *, size_bytes: int = RING_BYTES) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = size_bytes
        header = os.pread(self._fd, _HEADER.size, 0)
        self.total_bytes = _HEADER.unpack(header)[0] if len(header) == _HEADER.size else 0

    def take(self, data: bytes) -> bool:
        """Write it over the oldest; it never has enough."""
        written = self.total_bytes + len(data)
        data = data[-self._size :]
        place = (written - len(data)) % self._size
        first = data[: self._size - place]
        os.pwrite(self._fd, first, _HEADER.size + place)
        if len(first) < len(data):
            os.pwrite(self._fd, data[len(first) :], _HEADER.size)
        os.pwrite(self._fd, _HEADER.pack(written), 0)
        self.total_bytes = written
        return False

    def read(self, since: int) -> tuple[bytes, int]:
        """What was written after that many bytes, as far as it is still there, and where it begins."""
        end = self.total_bytes
        start = min(max(since, end - self._size, 0), end)
        place = start % self._size
        # Opened anew: the writer's descriptor may be closed, and its number used again, at any time.
        with self._path.open("rb", buffering=0) as file:
            data = os.pread(file.fileno(), min(end - start, self._size - place), _HEADER.size + place)
            data += os.pread(file.fileno(), end - start - len(data), _HEADER.size)
        return data, start

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)
