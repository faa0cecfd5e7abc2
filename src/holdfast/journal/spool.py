"""The spool: where a run's events are kept on disk while the store accepts no writes.

A spool file belongs to one process. Each record is framed with its length and a CRC, and fsynced before the
run continues. Absorbing a record stores its (file, number) key in the same transaction, so it lands exactly
once, even after a crash.
"""

import asyncio
import os
import secrets
import struct
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

import msgspec
from msgspec.structs import replace

from holdfast.codec import bodies_of
from holdfast.events import Event
from holdfast.journal.safe_files import sync_folder

_FRAME = struct.Struct("<II")  # length and CRC-32 of what follows
RECORD_BYTES_MAX = 64 * 1024 * 1024


class Spooled(msgspec.Struct, frozen=True, kw_only=True):
    """One append that the store didn't accept: the stored bodies of its events, in order.

    With `unknown_after`, it isn't known whether the store accepted it: the log may have the events after that
    seq. `after` is as far as the run knew its log; it is unknown in spools of earlier versions.
    """

    key: str
    session_id: str
    run_id: str
    events: tuple[msgspec.Raw, ...]
    unknown_after: int | None = None
    after: int | None = None


class Spool:
    """The spool file of this process; it exists only while records wait in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / f"{secrets.token_hex(8)}.spool"
        self._count = 0
        self._bytes = 0
        self._waiting: set[str] = set()
        # Only taken in threads: if a caller is cancelled, its thread finishes its work.
        self._lock = threading.Lock()

    async def put(
        self,
        session_id: str,
        run_id: str,
        events: Sequence[Event],
        *,
        unknown_after: int | None = None,
        after: int | None = None,
    ) -> Spooled:
        """Write the events to disk; raises OSError if that disk is full too."""
        bodies = tuple(msgspec.Raw(body) for body in bodies_of(events))
        record = Spooled(
            key="",
            session_id=session_id,
            run_id=run_id,
            events=bodies,
            unknown_after=unknown_after,
            after=after,
        )
        return await asyncio.to_thread(self._put, record)

    def _put(self, record: Spooled) -> Spooled:
        with self._lock:
            self._count += 1
            record = replace(record, key=f"spool:{self._path.stem}:{self._count}")
            self._bytes = _append(self._path, msgspec.json.encode(record), known_bytes=self._bytes)
            self._waiting.add(record.key)
            return record

    async def absorbed(self, record: Spooled) -> None:
        """Note that the store has this record; when it has all of them, the file is removed."""
        await asyncio.to_thread(self._absorbed, record)

    def _absorbed(self, record: Spooled) -> None:
        with self._lock:
            self._waiting.discard(record.key)
            if not self._waiting:
                self._path.unlink(missing_ok=True)
                self._bytes = 0


def spool_files(folder: Path) -> list[Path]:
    """The spools that earlier processes left, oldest first."""
    return sorted(folder.glob("*.spool"), key=lambda path: path.stat().st_mtime_ns)


def put_aside(path: Path) -> Path:
    """Rename a spool that can't be read, so that no start finds it again; return its new path."""
    return path.rename(path.with_suffix(".unreadable"))


def read_spool(path: Path) -> Iterator[Spooled]:
    """Every complete record up to the first torn or damaged one; nothing after that was acknowledged."""
    data = path.read_bytes()
    at = 0
    while at + _FRAME.size <= len(data):
        length, crc = _FRAME.unpack_from(data, at)
        body = data[at + _FRAME.size : at + _FRAME.size + length]
        if len(body) < length or crc32(body) != crc:
            return
        yield msgspec.json.decode(body, type=Spooled)
        at += _FRAME.size + length


def _append(path: Path, body: bytes, *, known_bytes: int) -> int:
    """Append one frame and return the new length of the file.

    The remains of a torn write are cut off first, so that the next record is readable.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        end = known_bytes
        if os.fstat(file).st_size != known_bytes:
            end = _whole_bytes(file)
            os.ftruncate(file, end)
        frame = _FRAME.pack(len(body), crc32(body)) + body
        written = 0
        try:
            while written < len(frame):
                written += os.pwrite(file, frame[written:], end + written)
            os.fsync(file)
            if not known_bytes:
                sync_folder(path.parent)
        except OSError:
            # The caller keeps the events elsewhere. If a crash left them here too, they would land twice.
            os.ftruncate(file, end)
            raise
    finally:
        os.close(file)
    return end + len(frame)


def _whole_bytes(file: int) -> int:
    """Where the last complete record ends."""
    end, size = 0, os.fstat(file).st_size
    while end + _FRAME.size <= size:
        length, crc = _FRAME.unpack(os.pread(file, _FRAME.size, end))
        if length > RECORD_BYTES_MAX or crc32(os.pread(file, length, end + _FRAME.size)) != crc:
            break
        end += _FRAME.size + length
    return min(end, size)
