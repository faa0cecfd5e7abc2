"""A backup is complete or absent, and restoring one never destroys data."""

import asyncio
import io
import tarfile
from pathlib import Path

import pytest

from holdfast import events as e
from holdfast.config.server import ServerSettings
from holdfast.config.settings import Settings
from holdfast.features.backup.copies import BackupRefused, back_up, put_back, read_stream, write_stream
from holdfast.host.lock import DirectoryBusy, DirectoryLock
from holdfast.interfaces.journal import JournalError
from stores import SqliteStore


def settings(folder: Path, spool: str = "") -> Settings:
    return Settings(server=ServerSettings(data_dir=str(folder), spool_dir=spool))


def in_silence(done: int, total: int) -> None:
    del done, total


async def append(database: Path, sessions: tuple[str, ...]) -> None:
    store = await SqliteStore.open(database)
    for session in sessions:
        await store.append(session, [e.SessionCreated(at_ms=1, epoch="0")])
    await store.close()


async def read(database: Path) -> list[bool]:
    store = await SqliteStore.open(database)
    try:
        return [bool(await store.read(session)) for session in ("first", "second")]
    finally:
        await store.close()


def stored(folder: Path, *sessions: str) -> Settings:
    """A data directory with these sessions."""
    folder.mkdir(mode=0o700, exist_ok=True)
    asyncio.run(append(folder / "holdfast.db", sessions))
    (folder / "api-key").write_text(f"key of {sessions[0]}")
    return settings(folder)


def sessions_in(folder: Path) -> list[bool]:
    """Whether the first and the second session are there."""
    return asyncio.run(read(folder / "holdfast.db"))


def copied(data: Settings, target: Path) -> int:
    return back_up(data, target, on_progress=in_silence).events


def damage(backup: Path) -> None:
    """Overwrite the middle of each page but the first."""
    database = backup / "holdfast.db"
    content = bytearray(database.read_bytes())
    for page in range(4096, len(content), 4096):
        content[page + 100 : page + 200] = b"x" * 100
    database.write_bytes(content)


def test_a_restored_backup_replaces_all_data_and_the_old_data_is_kept(tmp_path: Path) -> None:
    """P6: the data is as it was, and what was replaced can be put back in the same way."""
    data = tmp_path / "data"
    own = stored(data, "first")
    assert copied(own, tmp_path / "backup") == 1
    stored(data, "second")
    assert sessions_in(data) == [True, True]
    (data / "spool").mkdir()
    (data / "spool" / "late").write_text("of the replaced log")
    _, old = put_back(own, tmp_path / "backup", on_progress=in_silence)
    assert sessions_in(data) == [True, False]
    assert (data / "api-key").read_text() == "key of first"
    assert not (data / "spool").exists()
    assert (old / "spool" / "late").exists()
    assert sessions_in(old) == [True, True]
    assert not (data / "restoring").exists()


def test_a_backup_needs_a_new_folder_and_a_store(tmp_path: Path) -> None:
    own = stored(tmp_path / "data", "first")
    with pytest.raises(BackupRefused, match="exists; name a new folder"):
        copied(own, tmp_path)
    with pytest.raises(BackupRefused, match="no store"):
        copied(settings(tmp_path / "nothing"), tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_a_damaged_store_gives_no_backup_and_a_damaged_backup_changes_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    own = stored(data, "first")
    copied(own, tmp_path / "backup")
    damage(tmp_path / "backup")
    with pytest.raises((BackupRefused, JournalError), match="integrity check failed"):
        put_back(own, tmp_path / "backup", on_progress=in_silence)
    assert sessions_in(data) == [True, False]
    with pytest.raises((BackupRefused, JournalError), match="integrity check failed"):
        copied(settings(tmp_path / "backup"), tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_the_data_of_a_running_server_is_not_replaced(tmp_path: Path) -> None:
    data = tmp_path / "data"
    own = stored(data, "first")
    copied(own, tmp_path / "backup")
    with DirectoryLock(data), pytest.raises(DirectoryBusy):
        put_back(own, tmp_path / "backup", on_progress=in_silence)
    assert sorted(path.name for path in data.glob("re*")) == []


def test_a_folder_that_is_no_backup_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    own = stored(data, "first")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BackupRefused, match="isn't a backup"):
        put_back(own, tmp_path / "empty", on_progress=in_silence)
    copied(own, data / "backup")
    with pytest.raises(BackupRefused, match="out of the data directory"):
        put_back(own, data / "backup", on_progress=in_silence)


def test_a_spool_in_a_place_of_its_own_is_emptied_too(tmp_path: Path) -> None:
    stored(tmp_path / "data", "first")
    own = settings(tmp_path / "data", spool=str(tmp_path / "spool"))
    copied(own, tmp_path / "backup")
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "late").write_text("of the replaced log")
    _, old = put_back(own, tmp_path / "backup", on_progress=in_silence)
    assert list((tmp_path / "spool").iterdir()) == []
    assert (old / "spool" / "late").exists()


def test_a_stream_is_a_backup_and_an_archive_of_anything_else_changes_nothing(tmp_path: Path) -> None:
    """P11: names in it lead nowhere else."""
    data = stored(tmp_path / "data", "first")
    stream = io.BytesIO()
    assert write_stream(data, stream, on_progress=in_silence).events == 1
    other = stored(tmp_path / "other", "second")
    bad = io.BytesIO()
    with tarfile.open(fileobj=bad, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../outside"), io.BytesIO())
    for archive_bytes in (b"no archive", bad.getvalue(), stream.getvalue()[:2048]):
        with pytest.raises((BackupRefused, JournalError)):
            read_stream(other, io.BytesIO(archive_bytes), on_progress=in_silence)
    assert sessions_in(tmp_path / "other") == [False, True]
    assert not (tmp_path.parent / "outside").exists()
    _, old = read_stream(other, io.BytesIO(stream.getvalue()), on_progress=in_silence)
    assert sessions_in(tmp_path / "other") == [True, False]
    assert sessions_in(old) == [False, True]
    assert (tmp_path / "other" / "api-key").read_text() == "key of first"
