"""Copies a data directory and puts the copy back. A copy is complete and verified, or it isn't there."""

import asyncio
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import apsw

from holdfast.config.settings import Settings
from holdfast.host.lock import DirectoryLock
from holdfast.host.stores import shared_backend
from holdfast.journal.sqlite.integrity import Checked, check_store

DATABASE = "holdfast.db"
SNAPSHOTS = "snapshots/objects.git"
# A blob or a snapshot is on disk before the event that names it, so these are copied after the database.
BLOBS = "blobs"
FOLDERS = ("quarantine", SNAPSHOTS)
KEY = "api-key"
# Parts of the replaced data that would damage the restored data if they stayed.
REPLACED = (f"{DATABASE}*", BLOBS, "quarantine", "snapshots", "spool")
TRIES_MAX = 5

Progress = Callable[[int, int], None]


class BackupRefused(Exception):
    """The text says why, and what to do."""


def back_up(settings: Settings, target: Path, *, on_progress: Progress) -> Checked:
    """Copy the data to a new folder, as an SQLite store, and check every event and blob of the copy."""
    if not (settings.server.store or settings.store_path.is_file()):
        raise BackupRefused(f"there is no store in {settings.data_dir}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BackupRefused(f"{target} exists; name a new folder")
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700, parents=True)
    if settings.server.store:
        asyncio.run(shared_backend().back_up(settings, partial))
    else:
        _copy_database(settings.data_dir, partial)
    _copy_files(settings.data_dir, partial)
    checked = _checked(partial, on_progress)
    os.sync()
    partial.rename(target)
    return checked


def put_back(settings: Settings, source: Path, *, on_progress: Progress) -> tuple[Checked, Path]:
    """Replace the data of a stopped server; return what was checked, and where the old data is now."""
    if not (source / DATABASE).is_file():
        raise BackupRefused(f"{source} isn't a backup: it has no {DATABASE}")
    data = settings.data_dir
    if source.resolve().is_relative_to(data.resolve()):
        raise BackupRefused(f"move {source} out of the data directory first")
    with DirectoryLock(data):
        staged = data / "restoring"
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(mode=0o700)
        _copy_database(source, staged)
        _copy_files(source, staged)
        checked = _checked(staged, on_progress)
        if settings.server.store:
            asyncio.run(shared_backend().restore(settings, staged))
            _delete_store(staged)
        os.sync()
        old = _old_data(data)
        for path in _replaced(data, keeps_key=not (staged / KEY).exists()):
            path.rename(old / path.name)
        if settings.server.spool_dir:
            _empty_spool(settings.spool_dir, old / "spool")
        for path in sorted(staged.iterdir(), key=lambda path: path.name == DATABASE):  # the database last
            path.rename(data / path.name)
        staged.rmdir()
    return checked, old


def write_stream(settings: Settings, stream: IO[bytes], *, on_progress: Progress) -> Checked:
    """Write a verified copy as a tar archive. Nothing is written before it's verified."""
    with TemporaryDirectory(prefix="holdfast-backup-") as name:
        copy = Path(name) / "backup"
        checked = back_up(settings, copy, on_progress=on_progress)
        with tarfile.open(fileobj=stream, mode="w|") as archive:
            archive.add(copy, arcname=".")
    return checked


def read_stream(settings: Settings, stream: IO[bytes], *, on_progress: Progress) -> tuple[Checked, Path]:
    """Restore an archive that `write_stream` wrote, like `put_back`."""
    with TemporaryDirectory(prefix="holdfast-restore-") as name:
        copy = Path(name)
        try:
            with tarfile.open(fileobj=stream, mode="r|*") as archive:
                for member in archive:
                    # The name could lead elsewhere, and a link could make a later name do so.
                    if not (member.isfile() or member.isdir()) or {"..", "/"} & {*Path(member.name).parts}:
                        raise BackupRefused(f"{member.name!r} in the archive isn't part of a backup")
                    archive.extract(member, copy, set_attrs=False)
        except tarfile.TarError as error:
            raise BackupRefused(f"the input isn't an archive of a backup: {error}") from error
        return put_back(settings, copy, on_progress=on_progress)


def _copy_files(source: Path, target: Path) -> None:
    for name in FOLDERS:
        if (source / name).is_dir():
            _copy_folder(source / name, target / name)
    if (source / KEY).is_file():
        shutil.copy2(source / KEY, target / KEY)


def _copy_database(source: Path, target: Path) -> None:
    """Copy one state of the database, with its write-ahead log, while others write to it; then the blobs."""
    uri = f"{(source / DATABASE).absolute().as_uri()}?mode=ro"
    reading = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    writing = apsw.Connection(str(target / DATABASE))
    try:
        with writing.backup("main", reading, "main") as backup:
            backup.step()
    finally:
        writing.close()
        reading.close()
    if (source / BLOBS).is_dir():
        _copy_folder(source / BLOBS, target / BLOBS)


def _delete_store(folder: Path) -> None:
    """Delete the files of a store that's in a database now."""
    for path in folder.glob(f"{DATABASE}*"):
        path.unlink()
    shutil.rmtree(folder / BLOBS, ignore_errors=True)


def _copy_folder(source: Path, target: Path) -> None:
    """Copy a folder in which the server may be deleting files: then start again."""
    for _ in range(TRIES_MAX):
        try:
            shutil.copytree(source, target, symlinks=True)
        except (shutil.Error, FileNotFoundError):
            shutil.rmtree(target, ignore_errors=True)
        else:
            return
    raise BackupRefused(f"{source} keeps changing or can't be read; try again later")


def _checked(folder: Path, on_progress: Progress) -> Checked:
    checked = check_store(folder / DATABASE, on_progress=on_progress)
    if checked.faults:
        raise BackupRefused(f"the copy in {folder} isn't intact: {'; '.join(checked.faults)}")
    return checked


def _old_data(data: Path) -> Path:
    name = time.strftime("replaced-%Y%m%d-%H%M%S")
    for number in range(1, 100):
        old = data / (name if number == 1 else f"{name}-{number}")
        if not old.exists():
            old.mkdir(mode=0o700)
            return old
    raise BackupRefused(f"{data} has too many folders of replaced data")


def _replaced(data: Path, *, keeps_key: bool) -> Iterator[Path]:
    for pattern in REPLACED:
        yield from sorted(data.glob(pattern))
    if not keeps_key and (data / KEY).exists():
        yield data / KEY


def _empty_spool(spool: Path, old: Path) -> None:
    """Move output that continues the replaced log away; the folder itself may be a mount."""
    if spool.is_dir():
        old.mkdir(mode=0o700, exist_ok=True)
        for path in spool.iterdir():
            shutil.move(path, old / path.name)
