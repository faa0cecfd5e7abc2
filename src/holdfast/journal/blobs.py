"""Blobs as files named by the SHA-256 of their bytes, on disk before anyone learns the name."""

import asyncio
import errno
import hashlib
import os
import re
import secrets
from pathlib import Path

from holdfast.interfaces import StoreDamaged, StoreFailed, StoreFull

_NAME = re.compile(r"[0-9a-f]{64}\Z")
_FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}


class FileBlobs:
    """A folder of blobs, two letters of the name a sub-folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put_blob(self, data: bytes) -> str:
        """See Blobs.put_blob."""
        return await asyncio.to_thread(self._put, data)

    async def blob(self, name: str) -> bytes | None:
        """See Blobs.blob."""
        return await asyncio.to_thread(self._get, name) if _NAME.match(name) else None

    async def drop(self, name: str) -> None:
        """Remove a blob that no event names."""
        await asyncio.to_thread(self._path(name).unlink, missing_ok=True)

    async def untouched_since(self, unix_s: float) -> list[str]:
        """The names of blobs that nobody put since then."""
        return await asyncio.to_thread(self._untouched_since, unix_s)

    def _untouched_since(self, unix_s: float) -> list[str]:
        files = self._folder.glob("??/*")
        return [file.name for file in files if _NAME.match(file.name) and file.stat().st_mtime < unix_s]

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name

    def _put(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        path = self._path(name)
        if path.exists():
            # Young again, so that a clean-up does not take it before its event comes.
            os.utime(path)
            return name
        try:
            self._write(path, data)
        except OSError as error:
            text = f"could not keep a blob in {path.parent}: {error.strerror}"
            raise (StoreFull if error.errno in _FULL else StoreFailed)(text) from error
        return name

    def _write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        for folder in (path.parent, self._folder):
            _sync_folder(folder)

    def _get(self, name: str) -> bytes | None:
        try:
            data = self._path(name).read_bytes()
        except FileNotFoundError:
            return None
        if hashlib.sha256(data).hexdigest() != name:
            raise StoreDamaged(f"integrity check failed at blob {name}: its bytes are not the ones written")
        return data


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
