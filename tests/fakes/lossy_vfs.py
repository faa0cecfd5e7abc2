"""A SQLite VFS that loses what was not synced when the power is cut.

Every write goes through to the real file, and beside it the VFS keeps what a disk would still hold after a
power cut: the content at the last xSync of each file, and the operations since then. `power_cut` puts that
on disk in place of the live files, and the connections that were open find their disk gone.

    with LossyVFS("lossy") as vfs:
        db = apsw.Connection(path, vfs="lossy")
        vfs.power_cut(seed=7)                    # or, at every point in turn: vfs.cut_power_at(nth, seed=7)
        db.close()
        db = apsw.Connection(path, vfs="lossy")  # what the machine would find after the restart

What is modelled, for the database, its rollback journal, super-journal and write-ahead log:
- A write or truncation that no xSync of the same file followed may be lost, arrive whole, or arrive in part
  (by sectors of 512 bytes), in any order. Bytes beside a write are never damaged: SQLite's default on unix
  (powersafe overwrite) assumes so, too.
- A new file's name lasts from its first xSync on. A deletion lasts from the next sync of its directory on:
  one that SQLite asks for with a deletion, or the one that goes with the first xSync of a new journal or
  log. Before that the file may come back with the content that it had durably.
- A failed xSync loses what it should have saved for good, as Linux does: a later xSync that succeeds does
  not bring it back.

Not modelled: damage to synced data; temporary files, which pass through. The shared memory of the log cannot
be wrapped from Python: apsw passes xShm* on to the base VFS. It holds nothing durable, so a power cut removes
its file, and the next connection rebuilds it from the log as after a real one. Content is held in memory.
"""

# ruff: noqa: N802 - the methods of a VFS have SQLite's names

import random
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import apsw
from msgspec import Struct

from fakes.disk_image import DiskImage, Loss

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

_TRACKED = (
    apsw.SQLITE_OPEN_MAIN_DB
    | apsw.SQLITE_OPEN_MAIN_JOURNAL
    | apsw.SQLITE_OPEN_SUPER_JOURNAL
    | apsw.SQLITE_OPEN_WAL
)

# The unix VFS syncs the directory with the first sync of a journal or log that it has created.
_SYNCED_WITH_DIRECTORY = _TRACKED & ~apsw.SQLITE_OPEN_MAIN_DB
_NOTE = "the lossy disk failed as planned"


class _PlannedCut(Struct, frozen=True):
    at_operation: int
    seed: int
    loss: Loss


def _planned(code: int) -> Exception:
    error = apsw.exception_for(code)
    error.add_note(_NOTE)
    return error


def _is_planned(error: BaseException | None) -> bool:
    return _NOTE in getattr(error, "__notes__", ())


class LossyVFS(apsw.VFS):
    """Files whose unsynced content a power cut takes; safe to use from several threads.

    `operations` counts writes, truncations, syncs and deletions, so that a power cut at every one of them
    is a loop over `cut_power_at`. As a context manager it unregisters itself at the end, and meanwhile keeps
    from `sys.unraisablehook` those of its failures that SQLite ignores, such as an automatic checkpoint's.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.operations = 0
        self.power_cuts = 0
        self._lock = threading.RLock()
        self._images: dict[str, DiskImage] = {}
        self._planned: _PlannedCut | None = None
        self._syncs_left: int | None = None
        self._bytes_left: int | None = None
        self._outer_hook: Callable[[sys.UnraisableHookArgs], object] | None = None

    def __enter__(self) -> Self:
        self._outer_hook = sys.unraisablehook
        sys.unraisablehook = self._unraisable
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._outer_hook is not None, "what was entered is left"
        sys.unraisablehook = self._outer_hook
        self.unregister()

    def _unraisable(self, unraisable: "sys.UnraisableHookArgs", /) -> None:
        if self._outer_hook is not None and not _is_planned(unraisable.exc_value):
            self._outer_hook(unraisable)

    def power_cut(self, seed: int = 0, *, loss: Loss = "torn") -> None:
        """Cut the power now: files become what a disk would hold, open connections fail from here on."""
        with self._lock:
            rng = random.Random(seed)
            for path in sorted(self._images):
                content = self._images[path].survivor(rng, loss)
                # Removed first: the old connections keep the old inode, with its locks, to themselves.
                Path(path).unlink(missing_ok=True)
                Path(f"{path}-shm").unlink(missing_ok=True)
                if content is not None:
                    Path(path).write_bytes(content)
            self._images.clear()
            self._planned = None
            self.power_cuts += 1

    def cut_power_at(self, nth: int, *, seed: int = 0, loss: Loss = "torn") -> None:
        """Cut the power at the nth operation from now on, before that operation happens."""
        with self._lock:
            self._planned = _PlannedCut(self.operations + nth, seed, loss)

    def fail_sync_after(self, count: int) -> None:
        """Let this many syncs succeed and all later ones fail with SQLITE_IOERR_FSYNC."""
        with self._lock:
            self._syncs_left = count

    def full_after(self, count_bytes: int) -> None:
        """Let this many bytes be written and refuse all later writes with SQLITE_FULL."""
        with self._lock:
            self._bytes_left = count_bytes

    def heal(self) -> None:
        """Undo a planned power cut, failing syncs and the full disk."""
        with self._lock:
            self._planned = self._syncs_left = self._bytes_left = None

    def excepthook(
        self,
        etype: type[BaseException] | None,
        evalue: BaseException | None,
        etraceback: TracebackType | None,
    ) -> bool:
        """Stay quiet where SQLite has its error code and nobody can be told more, as when it closes."""
        return _is_planned(evalue) or super().excepthook(etype, evalue, etraceback)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        """Open through the default VFS, tracking what must survive."""
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None or not flags[0] & _TRACKED:
            return apsw.VFSFile("", name, flags)
        with self._lock:
            was_there = Path(path).exists()
            content = bytearray(Path(path).read_bytes()) if was_there and path not in self._images else None
            file = _LossyFile(self, name, path, flags)
            file.syncs_directory = not was_there and bool(flags[0] & _SYNCED_WITH_DIRECTORY)
            image = self._images.setdefault(path, DiskImage(content, was_there))
            if not was_there:
                image.created()
            return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001 - SQLite's signature
        """Delete, durably only if the directory is synced."""
        with self._lock:
            cuts = self.power_cuts
            self.operate()
            if self.power_cuts != cuts:
                raise _planned(apsw.SQLITE_IOERR_DELETE)
            super().xDelete(filename, syncdir)
            if filename in self._images:
                self._images[filename].deleted()
            if syncdir:
                self.sync_directory(filename)

    def operate(self) -> None:
        """Count an operation, and cut the power if it is the planned one."""
        self.operations += 1
        planned = self._planned
        if planned is not None and self.operations >= planned.at_operation:
            self.power_cut(planned.seed, loss=planned.loss)

    def sync_directory(self, path: str) -> None:
        """Make names and absences durable in the directory of a file."""
        for other, image in self._images.items():
            if Path(other).parent == Path(path).parent:
                image.directory_synced()

    def image(self, path: str) -> DiskImage:
        """What the disk holds of an open file."""
        return self._images[path]

    def lock(self) -> threading.RLock:
        """The lock that all file operations take."""
        return self._lock

    def take_sync(self) -> None:
        """Use up one sync, or fail as planned."""
        if self._syncs_left is not None:
            if self._syncs_left <= 0:
                raise _planned(apsw.SQLITE_IOERR_FSYNC)
            self._syncs_left -= 1

    def take_bytes(self, count: int) -> None:
        """Use up room on the disk, or fail as planned."""
        if self._bytes_left is not None:
            if self._bytes_left < count:
                raise _planned(apsw.SQLITE_FULL)
            self._bytes_left -= count


class _LossyFile(apsw.VFSFile):
    def __init__(
        self, vfs: LossyVFS, name: str | apsw.URIFilename | None, path: str, flags: list[int]
    ) -> None:
        super().__init__("", name, flags)
        self._vfs = vfs
        self._path = path
        self._cuts_at_open = vfs.power_cuts
        self.syncs_directory = False

    def excepthook(
        self,
        etype: type[BaseException] | None,
        evalue: BaseException | None,
        etraceback: TracebackType | None,
    ) -> bool:
        """Stay quiet where SQLite has its error code and nobody can be told more, as when it closes."""
        return _is_planned(evalue) or super().excepthook(etype, evalue, etraceback)

    def xRead(self, amount: int, offset: int) -> bytes:
        self._need_power(apsw.SQLITE_IOERR_READ)
        return super().xRead(amount, offset)

    def xWrite(self, data: "Buffer", offset: int) -> None:
        with self._vfs.lock():
            self._operate(apsw.SQLITE_IOERR_WRITE)
            content = bytes(data)
            self._vfs.take_bytes(len(content))
            super().xWrite(content, offset)
            self._vfs.image(self._path).written(offset, content)

    def xTruncate(self, newsize: int) -> None:
        with self._vfs.lock():
            self._operate(apsw.SQLITE_IOERR_TRUNCATE)
            super().xTruncate(newsize)
            self._vfs.image(self._path).truncated(newsize)

    def xSync(self, flags: int) -> None:
        # The real fsync is left out: this disk is the one whose power fails, and it is in memory.
        del flags
        with self._vfs.lock():
            self._operate(apsw.SQLITE_IOERR_FSYNC)
            image = self._vfs.image(self._path)
            try:
                self._vfs.take_sync()
            except apsw.IOError:
                image.sync_failed()
                raise
            image.synced()
            if self.syncs_directory:
                self.syncs_directory = False
                self._vfs.sync_directory(self._path)

    def xFileSize(self) -> int:
        self._need_power(apsw.SQLITE_IOERR_FSTAT)
        return super().xFileSize()

    def xLock(self, level: int) -> None:
        # Without a lock, a connection that is closed after the power cut cannot touch the new files.
        self._need_power(apsw.SQLITE_IOERR_LOCK)
        super().xLock(level)

    def xCheckReservedLock(self) -> bool:
        self._need_power(apsw.SQLITE_IOERR_CHECKRESERVEDLOCK)
        return super().xCheckReservedLock()

    def _operate(self, code: int) -> None:
        self._need_power(code)
        self._vfs.operate()
        self._need_power(code)

    def _need_power(self, code: int) -> None:
        if self._vfs.power_cuts != self._cuts_at_open:
            raise _planned(code)
