"""File contents: read whole up to a limit, replaced atomically, and remembered as they were read."""

import hashlib
import os
from collections import OrderedDict
from contextlib import suppress
from secrets import token_hex
from threading import Event

from msgspec import Struct

from holdfast.tools.files.workspace import PathRefused, Spot

WHOLE_BYTES_MAX = 16 * 1024 * 1024
SESSIONS_MAX = 256
FILES_MAX = 1_000
_CHUNK_BYTES = 1024 * 1024


class ChangedMeanwhile(PathRefused):
    """Someone else has just changed the file."""


class Stamp(Struct, frozen=True):
    """A file's contents at one time; `digest` is empty if the file was too large to read whole."""

    mtime_ns: int
    bytes: int
    digest: str

    def differs(self, now: "Stamp") -> bool:
        """Whether the contents have changed."""
        if self.digest and now.digest:
            return self.digest != now.digest
        return (self.mtime_ns, self.bytes) != (now.mtime_ns, now.bytes)


class FilesSeen:
    """Each session's last view of each file, so that it doesn't overwrite unseen changes.

    Kept in memory only: after a restart nothing is known, and nothing is refused because of that.
    """

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, OrderedDict[str, Stamp]] = OrderedDict()

    def note(self, session_id: str, path: str, *, stamp: Stamp) -> None:
        """Note that the session has seen the file as it is now."""
        files = self._sessions.setdefault(session_id, OrderedDict())
        self._sessions.move_to_end(session_id)
        files[path] = stamp
        files.move_to_end(path)
        if len(files) > FILES_MAX:
            files.popitem(last=False)
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)

    def last(self, session_id: str, path: str) -> Stamp | None:
        """Return the session's last view."""
        return self._sessions.get(session_id, OrderedDict[str, Stamp]()).get(path)


def byte_count(size: int) -> str:
    """A size as people write it."""
    return "1 byte" if size == 1 else f"{size:,} bytes"


def read_whole(spot: Spot, *, give_up: Event | None = None) -> tuple[bytes, Stamp]:
    """All bytes of a file and their stamp; raises PathRefused if it is too large."""
    descriptor = spot.open_file()
    try:
        found = os.fstat(descriptor)
        if found.st_size > WHOLE_BYTES_MAX:
            raise PathRefused(f"{spot.inside} has {found.st_size:,} bytes; the limit is {WHOLE_BYTES_MAX:,}.")
        parts: list[bytes] = []
        left = WHOLE_BYTES_MAX + 1
        while left > 0 and (part := os.read(descriptor, min(left, _CHUNK_BYTES))):
            parts.append(part)
            left -= len(part)
            if give_up is not None and give_up.is_set():
                raise PathRefused("Stopped.")
    finally:
        os.close(descriptor)
    if left <= 0:
        raise PathRefused(f"{spot.inside} has more than {WHOLE_BYTES_MAX:,} bytes and is growing.")
    data = b"".join(parts)
    return data, Stamp(found.st_mtime_ns, len(data), hashlib.sha256(data).hexdigest())


def replace_whole(spot: Spot, data: bytes, *, was: Stamp | None) -> Stamp:
    """Write the file atomically, keeping mode and owner; raises PathRefused if it has changed."""
    old = spot.look()
    if old is not None:
        spot.insist_on_a_file(old)
    unfinished = f".{token_hex(8)}.tmp"  # without the name, which may be as long as a name can be
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(unfinished, flags, 0o666, dir_fd=spot.folder_fd)
    try:
        try:
            _write_all(descriptor, data)
            if old is not None:
                _keep_owner_and_mode(descriptor, old)
            os.fsync(descriptor)
            mtime_ns = os.fstat(descriptor).st_mtime_ns
        finally:
            os.close(descriptor)
        _insist_unchanged(spot, was)
        _put_in_place(spot, unfinished, is_new=was is None)
    except BaseException:
        os.unlink(unfinished, dir_fd=spot.folder_fd)
        raise
    return Stamp(mtime_ns, len(data), hashlib.sha256(data).hexdigest())


def remove(spot: Spot, *, was: Stamp | None) -> None:
    """Delete the file; raises PathRefused if it has changed."""
    _insist_unchanged(spot, was)
    os.unlink(spot.name, dir_fd=spot.folder_fd)


def _put_in_place(spot: Spot, unfinished: str, *, is_new: bool) -> None:
    """Give the file its name; a new one never takes the place of one that someone else has just made."""
    if is_new:
        try:
            os.link(unfinished, spot.name, src_dir_fd=spot.folder_fd, dst_dir_fd=spot.folder_fd)
        except FileExistsError as error:
            raise ChangedMeanwhile(
                f"{spot.inside} was just created by someone else. Read it first."
            ) from error
        except OSError:
            pass  # not every file system has hard links
        else:
            os.unlink(unfinished, dir_fd=spot.folder_fd)
            return
    os.rename(unfinished, spot.name, src_dir_fd=spot.folder_fd, dst_dir_fd=spot.folder_fd)


def _insist_unchanged(spot: Spot, was: Stamp | None) -> None:
    now = spot.look()
    before = (was.mtime_ns, was.bytes) if was else None
    if (now and (now.st_mtime_ns, now.st_size)) != before:
        raise ChangedMeanwhile(f"{spot.inside} was just changed by someone else. Read it again.")


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _keep_owner_and_mode(descriptor: int, old: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
        # Only root gives files away; for others the file is theirs from now on, as with any editor.
        with suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, old.st_mode & 0o777)
