"""A store that cannot be written: the error says what to do, nothing is half there, and it goes on."""

import asyncio
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from typing_extensions import override

from holdfast.interfaces.journal import (
    Appended,
    JournalError,
    StoreClosed,
    StoreDamaged,
    StoreFailed,
    StoreLocked,
    StoreOverloaded,
    StoreReadOnly,
)
from holdfast.journal.sqlite.connection import Connections, named, sqlite_errors_named
from holdfast.journal.sqlite.tuning import Tuning
from journal.labs import SqliteLab, until
from journal.sample import begin, created, delta, message, say
from stores import SqliteStore

NOBODY = 65_534


async def test_a_foreign_write_lock_is_named_and_waited_out(tmp_path: Path) -> None:
    lab = SqliteLab(tmp_path, tuning=Tuning(lock_s=0.05))
    store = await lab.open()
    fence = await begin(store)
    foreign = apsw.Connection(str(lab.path))
    foreign.execute("BEGIN IMMEDIATE")
    outcomes = await asyncio.gather(
        *[store.append_run("s1", [delta("x")], fence=fence) for _ in range(3)], return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [StoreLocked] * 3
    assert "wait until it is done" in str(outcomes[0])
    assert await store.last_seq("s1") == 1
    with pytest.raises(StoreLocked):
        await lab.open()
    foreign.execute("ROLLBACK")
    assert await store.append_run("s1", [delta("x")], fence=fence) == Appended(2, 2)
    foreign.close()
    await store.close()


async def test_a_foreign_writer_s_rows_do_not_confuse_the_store(tmp_path: Path) -> None:
    """A `sqlite3` shell that writes without asking does not make the store lose its place."""
    lab = SqliteLab(tmp_path, tuning=Tuning(lock_s=0.05))
    store = await lab.open()
    fence = await begin(store)
    foreign = apsw.Connection(str(lab.path))
    foreign.execute("INSERT INTO events SELECT session, 2, crc, body FROM log")
    foreign.close()
    assert await store.append_run("s1", [delta("x")], fence=fence) == Appended(3, 3)
    assert [record.seq for record in await store.read("s1")] == [1, 2, 3]
    await store.close()


async def test_what_is_answered_from_memory_is_forgotten_once_someone_else_has_written(
    tmp_path: Path,
) -> None:
    """P7: after our next write the file is asked again, so that nothing of theirs is missing."""
    lab = SqliteLab(tmp_path)
    store = await lab.open()
    await begin(store)
    other = await lab.open()
    await other.append("s1", [message("theirs", message_id="m2")])
    await store.append("s2", [created()])
    assert await store.last_seq("s1") == 2
    assert [record.seq for record in await store.read("s1")] == [1, 2]
    listed = await store.listed("s1")
    assert listed is not None
    assert listed.row.messages == 1
    await store.close()
    await other.close()


FULL = """
import asyncio, resource, sys
from pathlib import Path
from holdfast import events as e
from holdfast.interfaces.journal import Appended, StoreFull
from holdfast.journal.sqlite.connection import named, sqlite_errors_named
from holdfast.journal.sqlite.connection import Connections
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.redaction import NO_SECRETS

def message(text):
    return e.MessageAccepted(at_ms=1, message_id="m", text=text)

async def main(path):
    store = await SqliteStore.open(path, NO_SECRETS)
    await store.append("s1", [e.SessionCreated(at_ms=1, epoch="e")])
    limit = (path.with_name(path.name + "-wal").stat().st_size + 60_000, resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    accepted = 1
    try:
        while True:
            await store.append("s1", [message("x" * 9_000)])
            accepted += 1
    except StoreFull as full:
        assert "free some space" in str(full), full
    outcomes = await asyncio.gather(*[store.append("s1", [message("y" * 90_000)]) for _ in range(3)],
                                    return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreFull] * 3, outcomes
    try:
        await store.put_blob(b"z" * 1_000_000)
        raise AssertionError("the blob had no room")
    except StoreFull as full:
        assert "free some space" in str(full), full
    assert await store.last_seq("s1") == accepted
    assert not list(path.parent.glob("blobs/??/*")) and not list(path.parent.glob("blobs/??/.*"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert await store.append("s1", [message("after")]) == Appended(accepted + 1, accepted + 1)
    await store.close()
    store = await SqliteStore.open(path, NO_SECRETS)
    assert [record.seq for record in await store.read("s1")] == list(range(1, accepted + 2))
    await store.close()
    print("well", accepted)

asyncio.run(main(Path(sys.argv[1])))
"""


def test_a_full_disk_refuses_whole_appends_and_takes_them_again_when_there_is_room(tmp_path: Path) -> None:
    assert _child(FULL, tmp_path / "journal.db").startswith("well")


READ_ONLY = f"""
import asyncio, os, sys
from pathlib import Path
from holdfast import events as e
from holdfast.interfaces.journal import StoreReadOnly
from holdfast.journal.sqlite.queries import migrations, queries
from holdfast.journal.sqlite.reader import SqliteReader
from holdfast.journal.sqlite.connection import named, sqlite_errors_named
from holdfast.journal.sqlite.connection import Connections
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.redaction import NO_SECRETS

async def main(path):
    queries(), migrations()  # files that only root may be able to read
    if os.geteuid() == 0:
        os.seteuid({NOBODY})  # root may write anywhere
    try:
        await SqliteStore.open(path, NO_SECRETS)
    except StoreReadOnly as refused:
        assert "may write" in str(refused), refused
    else:
        raise AssertionError("opened")
    reader = SqliteReader(path)
    print("read", len(await reader.read("s1")))
    await reader.close()

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that other users may enter, since whoever runs this as root has the child be nobody.

    Not below pytest's own folder, which each session that begins closes to everyone else.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


async def test_a_read_only_directory_is_named_and_can_be_read(shared_folder: Path) -> None:
    folder = shared_folder
    path = folder / "journal.db"
    store = await SqliteStore.open(path)
    await begin(store)
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    assert await asyncio.to_thread(_child, READ_ONLY, path) == "read 1\n"
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)
    await store.close()


async def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreReadOnly, match="check that the directory exists"):
        await SqliteStore.open(tmp_path / "nowhere" / "journal.db")


async def test_a_newer_schema_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    database = apsw.Connection(str(path))
    database.pragma("user_version", 999)
    database.execute("CREATE TABLE store (id, commits); INSERT INTO store VALUES (1, 1)")
    database.close()
    with pytest.raises(StoreReadOnly, match="written by a newer Holdfast"):
        await SqliteStore.open(path)


class _Vanishing(apsw.VFS):
    """A store that another program removes once SQLite has opened its files."""

    def __init__(self) -> None:
        super().__init__("vanishing", base="")

    @override
    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        opened = super().xOpen(name, flags)
        if isinstance(name, str) and name.endswith("-wal"):
            Path(name.removesuffix("-wal")).unlink()
        return opened


async def test_a_store_that_goes_away_while_it_is_opened_for_reading_is_named(tmp_path: Path) -> None:
    """P1: readers hear of it as of any other failure of the store."""
    lab = SqliteLab(tmp_path)
    await (await lab.open()).close()
    vfs = _Vanishing()
    connections = Connections(lab.path, vfs="vanishing")

    def read() -> None:
        with sqlite_errors_named(lab.path), connections.one():
            raise AssertionError("nothing is there")

    with pytest.raises(JournalError, match="went away while it was opened"):
        await asyncio.to_thread(read)
    connections.close()
    vfs.unregister()


async def test_an_open_that_fails_leaves_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with pytest.raises(StoreReadOnly):
        await SqliteStore.open(tmp_path / "nowhere" / "journal.db")
    await until(lambda: set(threading.enumerate()) <= before)


async def test_too_many_waiting_appends_are_refused_not_queued(tmp_path: Path) -> None:
    lab = SqliteLab(tmp_path, tuning=Tuning(waiting_jobs_max=10))
    store = await lab.open()
    await begin(store)
    foreign = apsw.Connection(str(lab.path))
    foreign.execute("BEGIN IMMEDIATE")
    appends = [asyncio.ensure_future(store.append("s1", [message("x")])) for _ in range(40)]
    await until(lambda: any(append.done() for append in appends))
    foreign.execute("ROLLBACK")
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, StoreOverloaded)]
    accepted = [outcome for outcome in outcomes if isinstance(outcome, Appended)]
    assert len(refused) + len(accepted) == 40
    assert refused
    assert "try again" in str(refused[0])
    assert await store.last_seq("s1") == 1 + len(accepted)
    foreign.close()
    await store.close()


@pytest.mark.parametrize("where", ["write", "tidy"])
async def test_a_bug_that_ends_the_writer_leaves_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """P3: neither those of its commit nor those behind them, and whoever comes later hears why."""

    def stumble(*_: object) -> None:
        raise RuntimeError("a bug of ours")

    store = await SqliteLab(tmp_path, tuning=Tuning(group_jobs_max=2)).open()
    await begin(store)
    monkeypatch.setattr(f"holdfast.journal.sqlite.commits.Commits.{where}", stumble)
    appends = [store.append("s1", [message("x")]) for _ in range(5)]
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes[:2]} <= {Appended, StoreClosed}
    assert [type(outcome) for outcome in outcomes[2:]] == [StoreClosed] * 3
    with pytest.raises(StoreClosed, match="a bug of ours"):
        await store.append("s1", [message("later")])
    await store.close()


async def test_one_that_cannot_be_shown_keeps_nobody_of_its_commit_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """P3, P7: what follows a purge may fail; others of the same commit go on, and followers see all of it."""
    store = await SqliteLab(tmp_path).open()
    for session_id in ("s1", "s2"):
        await begin(store, session_id)

    def stumble() -> None:
        raise RuntimeError("a bug of ours")

    following = store.follow("s2", after=1)
    outcomes = await asyncio.gather(
        store.purge("s1", then=stumble),
        *[store.append("s2", [message(f"{nth}", message_id=f"m{nth}")]) for nth in range(3)],
    )
    assert outcomes == [True, *[Appended(seq, seq) for seq in (2, 3, 4)]]
    assert [record.seq for record in await anext(following)] == [2, 3, 4]
    assert "a bug of ours" in caplog.text
    await store.close()


async def test_a_log_that_nobody_can_look_at_is_not_written_to_until_it_is_back(tmp_path: Path) -> None:
    """P1, P3: what cannot be reached refuses writes, and takes them again when it is back."""
    store = await SqliteLab(tmp_path).open()
    await begin(store)
    log = tmp_path / "journal.db-wal"
    aside = log.rename(tmp_path / "aside")
    log.symlink_to(log)  # a way that never ends
    for _ in range(2):
        with pytest.raises(StoreFailed, match="check the disk; nothing was accepted"):
            await store.append("s1", [message("x")])
    aside.replace(log)
    assert await store.append("s1", [message("x")]) == Appended(2, 2)
    await store.close()


async def test_the_log_stays_short_and_a_clean_close_leaves_one_file(tmp_path: Path) -> None:
    lab = SqliteLab(tmp_path)
    store = await lab.open()
    fence = await begin(store)
    for _ in range(30):
        await store.append_run("s1", [delta("x" * 900_000)], fence=fence)
    await say(store, 2, fence=fence)
    assert (tmp_path / "journal.db-wal").stat().st_size < 20_000_000
    await store.read("s1", limit=1)
    await store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal.db", "journal.db-mark"]  # noqa: ASYNC240


def _child(script: str, path: Path) -> str:
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_these_tests_do_not_limit_themselves() -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    assert os.geteuid() != NOBODY


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (apsw.SQLITE_IOERR_SHORT_READ, StoreDamaged, "ends too early"),
        (apsw.SQLITE_IOERR_READ, StoreFailed, "reading .* failed"),
        (apsw.SQLITE_IOERR_WRITE, StoreFailed, "writing .* failed"),
    ],
)
def test_a_read_that_fails_is_not_called_a_write(
    code: int, kind: type[JournalError], says: str, tmp_path: Path
) -> None:
    """P12: the advice fits what went wrong."""
    error = apsw.IOError("disk I/O error")
    error.__dict__["extendedresult"] = code
    failure = named(error, tmp_path / "holdfast.db")
    assert type(failure) is kind
    assert re.search(says, str(failure))
