"""Files of a store that other programs remove, cut or replace while it is in use (P1, P2)."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import apsw
import pytest
from typing_extensions import override

from holdfast.events import MessageAccepted
from holdfast.interfaces.index import SessionQuery
from holdfast.interfaces.journal import JournalError, StoreDamaged
from holdfast.journal.blobs import FileBlobs
from holdfast.journal.sqlite.commit_mark import CommitMark, number_in
from holdfast.journal.sqlite.commits import Commits
from holdfast.journal.sqlite.connection import connect_for_writing
from holdfast.journal.sqlite.jobs import TransactionJob
from holdfast.journal.sqlite.store_files import FileFault, StoreFiles
from holdfast.journal.sqlite.transaction import Transaction
from holdfast.journal.sqlite.tuning import Tuning
from journal.file_faults import FAULTS, JUNK, copy_of
from journal.labs import until
from journal.sample import begin, message
from stores import SqliteStore

BEFORE, LATER = 30, 21
ANY_AGE_S = float(1 << 40)  # everything is older than that
SAVED, ELSEWHERE, LOST = "restart Holdfast", "move that file to", "restore a backup"


class Desk:
    """A store in use, what it accepted, and older copies of its files."""

    def __init__(self, folder: Path, tuning: Tuning | None = None) -> None:
        self.tuning = tuning
        self.folder = folder / "data"
        self.older = folder / "older"
        self.path = self.folder / "journal.db"
        self.log = self.folder / "journal.db-wal"
        self.accepted: list[str] = []
        self.said = ""

    async def open(self) -> SqliteStore:
        self.folder.mkdir(exist_ok=True)
        return await SqliteStore.open(self.path, tuning=self.tuning)

    async def begin(self) -> SqliteStore:
        """Some messages, a copy of all files, and more messages."""
        store = await self.open()
        await begin(store)
        await self.send(store, BEFORE)
        await store.close()
        store = await self.open()
        await asyncio.to_thread(copy_of, self.folder, self.older)
        await self.send(store, BEFORE)
        return store

    async def send(self, store: SqliteStore, count: int) -> None:
        for _ in range(count):
            text = f"m{len(self.accepted)}"
            try:
                await store.append("s1", [message(text, message_id=text)])
            except JournalError as refused:
                self.said = str(refused)
            else:
                self.accepted.append(text)

    async def hurt(self, name: str, how: str) -> None:
        file = f"{self.path.name}{name}"
        await asyncio.to_thread(FAULTS[how], self.folder / file, self.older / file)

    async def remove(self, *, then: Callable[[], object] = lambda: None) -> None:
        """Remove the folder at once: a store whose files go one by one saves some of them there meanwhile."""
        moved = self.folder.rename(self.folder.with_name("moved"))
        then()
        await asyncio.to_thread(shutil.rmtree, moved)

    async def texts(self) -> Sequence[str]:
        store = await self.open()
        try:
            events = [record.event for record in await store.read("s1")]
        finally:
            await store.close()
        return [event.text for event in events if isinstance(event, MessageAccepted)]


@pytest.mark.parametrize("later", [0, LATER], ids=["idle", "used"])
@pytest.mark.parametrize("how", FAULTS)
@pytest.mark.parametrize("name", ["", "-wal", "-shm"])
async def test_what_was_accepted_outlives_what_other_programs_do_to_the_files(
    tmp_path: Path, name: str, how: str, later: int
) -> None:
    """P1, P2: or the store says what is missing, and where what was saved is."""
    if name == "-shm" and how in {"empty", "cut", "write_back"}:
        pytest.skip("the system kills a process whose mapped file is cut; the campaign does that")
    desk = Desk(tmp_path)
    store = await desk.begin()
    await desk.hurt(name, how)
    if later:
        await desk.send(store, later)
        if desk.said:
            await until(
                lambda: any(end in str(store.trouble) for end in (SAVED, ELSEWHERE, LOST)) or name == "-shm"
            )
            desk.said = str(store.trouble) if name != "-shm" else desk.said
    await store.close()
    saved = [*desk.folder.glob("*.saved-*")]
    if name == "" and how in {"empty", "cut"}:
        assert not later or LOST in desk.said
        with pytest.raises(StoreDamaged):
            await desk.texts()
        return
    if name == "" and how in {"replace", "put_back"}:
        assert not later or ELSEWHERE in desk.said
        with pytest.raises(StoreDamaged, match=saved[0].name):
            await desk.texts()
        desk.path.with_name("journal.db-wal").unlink(missing_ok=True)
        saved[0].replace(desk.path)
    else:
        assert not saved
        assert not desk.said or SAVED in desk.said
    assert await desk.texts() == desk.accepted


@pytest.mark.parametrize("later", [0, LATER], ids=["idle", "used"])
async def test_a_directory_that_is_removed_comes_back_with_everything(tmp_path: Path, later: int) -> None:
    desk = Desk(tmp_path)
    store = await desk.begin()
    await desk.remove()
    if later:
        await desk.send(store, later)
        await until(lambda: SAVED in str(store.trouble))
    await store.close()
    assert await desk.texts() == desk.accepted


async def test_a_copy_that_is_removed_too_is_saved_again(tmp_path: Path) -> None:
    """P1: whoever removes a directory file by file also removes what was saved there meanwhile."""
    desk = Desk(tmp_path)
    store = await desk.begin()
    await asyncio.to_thread(desk.path.with_name("journal.db-wal").unlink)
    await desk.send(store, LATER)
    await until(lambda: SAVED in str(store.trouble))
    await desk.remove()
    await store.close()
    assert await desk.texts() == desk.accepted


async def test_a_directory_that_is_moved_is_named_and_gone_on_with_when_it_is_back(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    store = await desk.begin()
    desk.folder.rename(tmp_path / "elsewhere")
    await desk.send(store, 1)
    assert f"--data-dir {tmp_path / 'elsewhere'}" in desk.said
    assert "Nothing is lost" in desk.said
    (tmp_path / "elsewhere").rename(desk.folder)
    count = len(desk.accepted)
    await desk.send(store, 1)
    assert len(desk.accepted) == count + 1
    await store.close()
    assert await desk.texts() == desk.accepted


async def test_a_directory_that_is_moved_during_a_look_is_not_called_removed(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Tuning(look_s=0.0))
    store = await desk.begin()

    def move_about() -> None:
        for _ in range(2_000):
            desk.folder.rename(tmp_path / "elsewhere")
            (tmp_path / "elsewhere").rename(desk.folder)

    await asyncio.to_thread(move_about)
    count = len(desk.accepted)
    await desk.send(store, 1)
    assert len(desk.accepted) == count + 1, desk.said
    await store.close()
    assert await desk.texts() == desk.accepted


async def test_a_moved_directory_is_whole_where_it_is_now_and_what_replaced_it_is_left_alone(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path)
    store = await desk.begin()
    desk.folder.rename(tmp_path / "elsewhere")
    await asyncio.to_thread(shutil.copytree, desk.older, desk.folder)
    before = {path.name: path.read_bytes() for path in desk.folder.iterdir()}
    await desk.send(store, 1)
    await store.close()
    assert {path.name: path.read_bytes() for path in desk.folder.iterdir()} == before
    desk.folder, desk.path = tmp_path / "elsewhere", tmp_path / "elsewhere" / "journal.db"
    assert await desk.texts() == desk.accepted


async def test_an_idle_store_notices_by_itself(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Tuning(look_s=0.01))
    store = await desk.begin()
    await desk.hurt("", "unlink")
    await until(lambda: SAVED in str(store.trouble))
    assert desk.path.exists()
    await store.close()
    assert await desk.texts() == desk.accepted


async def test_a_large_store_of_which_memory_holds_little_is_saved_too(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    store = await desk.begin()
    for _ in range(40):
        await store.append("s1", [message("x" * 900_000, message_id="large")])
    await desk.hurt("", "unlink")
    await desk.hurt("-wal", "unlink")
    await store.close()
    kept = await desk.texts()
    assert [text for text in kept if not text.startswith("x")] == desk.accepted
    assert sum(text.startswith("x") for text in kept) == 40


async def test_what_only_an_unreadable_log_held_is_said_to_be_lost(tmp_path: Path) -> None:
    """P1, P2: a large log that is cut cannot be saved, and nobody says that it was."""
    desk = Desk(tmp_path)
    store = await desk.begin()
    for _ in range(4):  # so few that all of it is in the log alone
        await store.append("s1", [message("x" * 900_000, message_id="large")])
    foreign = apsw.Connection(str(desk.path))
    foreign.wal_autocheckpoint(0)
    foreign.execute("CREATE TABLE theirs (x)")  # after which the store reads everything anew
    await desk.send(store, 1)
    await desk.hurt("-wal", "cut")
    await desk.send(store, 3)
    await until(lambda: LOST in str(store.trouble))
    await store.close()
    foreign.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    foreign.close()
    with pytest.raises(StoreDamaged):
        await desk.texts()


async def test_what_cannot_be_saved_yet_is_tried_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path, Tuning(look_s=0.01, save_again_s=0.0))
    store = await desk.begin()
    await desk.remove(then=lambda: desk.folder.write_text("in the way"))
    await until(lambda: "Don't stop Holdfast" in str(store.trouble))
    desk.folder.unlink()
    await until(lambda: SAVED in str(store.trouble))
    await store.close()
    assert await desk.texts() == desk.accepted


async def test_a_database_that_was_only_touched_is_written_on(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    store = await desk.begin()
    desk.path.touch()
    await desk.send(store, LATER)
    assert not desk.said
    await store.close()
    assert await desk.texts() == desk.accepted


CHECKPOINT = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("CREATE TABLE IF NOT EXISTS theirs (x)")
connection.execute("INSERT INTO theirs VALUES (1)")
connection.commit()
print(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
connection.execute("VACUUM")
connection.close()
"""

MOVE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
((busy, pages, moved),) = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
assert not busy and pages == moved > 0
connection.close()
"""


async def test_other_programs_that_use_sqlite_properly_are_no_fault(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    store = await desk.begin()
    for _ in range(3):
        command = [sys.executable, "-c", CHECKPOINT, str(desk.path)]
        await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
        await desk.send(store, 3)
        assert not desk.said
    await store.close()
    assert await desk.texts() == desk.accepted


class CommitsWithCompany(Commits):
    """Another program uses the store between the look at the files and the commit."""

    company: Sequence[Sequence[str]] = ()

    @override
    def look(self) -> bool:
        is_fine = super().look()
        for command in self.company:
            subprocess.run(command, check=True, capture_output=True)
        self.company = ()
        return is_fine


async def test_another_program_that_restarts_the_log_just_before_a_commit_is_no_fault(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await (await desk.begin()).close()
    loop = asyncio.get_running_loop()
    jobs = [TransactionJob(future=loop.create_future(), task=put_a_note) for _ in range(3)]

    def write() -> None:
        blobs = FileBlobs(desk.folder / "blobs")
        commits = CommitsWithCompany(desk.path, blobs=blobs, durability="power", vfs=None)
        commits.company = 2 * [[sys.executable, "-c", CHECKPOINT, str(desk.path)]]
        for job in jobs:
            commits.write([job])
        commits.close()

    await asyncio.to_thread(write)
    assert [job.error for job in jobs] == [None, None, None]


def put_a_note(transaction: Transaction) -> None:
    transaction.execute("put_note", {"key": "k", "value": b"v"})


def salts(log: Path) -> bytes:
    return log.read_bytes()[16:24]


async def send_large(store: SqliteStore, count: int) -> None:
    """Messages in one commit."""
    await store.append("s1", [message(f"word{n} " * 300, message_id=f"large{n}") for n in range(count)])


async def test_a_log_that_sqlite_restarts_with_a_commit_longer_than_all_of_it_is_no_fault(
    tmp_path: Path,
) -> None:
    """P1: another process checkpointed a short log, so the next commit begins it again and outgrows it."""
    desk = Desk(tmp_path)
    store = await desk.begin()
    before, length = salts(desk.log), desk.log.stat().st_size
    command = [sys.executable, "-c", MOVE, str(desk.path)]
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    await send_large(store, 300)
    assert salts(desk.log) != before
    assert desk.log.stat().st_size > length
    await desk.send(store, 3)
    assert not desk.said
    await store.close()
    assert [text for text in await desk.texts() if text.startswith("m")] == desk.accepted


async def test_a_wiping_pass_that_checkpoints_a_short_log_is_no_fault(tmp_path: Path) -> None:
    """P1: a process killed during the pass leaves it to the next, whose log is short and soon long."""
    desk = Desk(tmp_path)
    await (await desk.begin()).close()
    unfinished = apsw.Connection(str(desk.path))
    unfinished.execute("INSERT INTO notes (key, value) VALUES ('journal/wiping', x'')")
    unfinished.close()
    store = await desk.open()
    before = salts(desk.log)
    for count in (1, 10, 60, 300):  # each is longer than the log before it
        await send_large(store, count)
    assert salts(desk.log) != before
    await desk.send(store, 3)
    assert not desk.said
    await store.close()


def test_an_older_log_written_back_is_not_taken_for_one_that_sqlite_restarted(tmp_path: Path) -> None:
    """P1, P2: it is a whole log of the same store, and longer than the present one."""
    path, log = tmp_path / "journal.db", tmp_path / "journal.db-wal"
    connection = connect_for_writing(path, durability="power", vfs=None, lock_s=1.0)
    connection.wal_autocheckpoint(0)
    connection.execute("CREATE TABLE t (x)")
    connection.execute("INSERT INTO t VALUES (zeroblob(90000))")
    pages, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    older = log.read_bytes()
    connection.execute("INSERT INTO t VALUES (1)")
    now, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    assert 0 < now < pages
    page_bytes = int(connection.pragma("page_size"))
    files = StoreFiles(connection, path, page_bytes=page_bytes, saw_foreign_write=lambda: False)
    files.committed(now)
    assert files.fault() is None
    log.write_bytes(older)
    files.committed(pages)
    assert files.fault() == FileFault("overwritten", log)
    files.close()
    connection.close()


async def test_an_older_database_written_into_the_file_is_noticed(tmp_path: Path) -> None:
    """P1, P2: a backup that is copied over a store in use."""
    desk = Desk(tmp_path)
    store = await desk.begin()
    for _ in range(30):
        await store.append("s1", [message("x" * 9_000, message_id="large")])
    foreign = apsw.Connection(str(desk.path))
    foreign.execute("SELECT fence FROM store").fetchall()
    assert foreign.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE) > (30, 30)
    await desk.send(store, 3)
    await desk.hurt("", "write_back")
    await desk.send(store, 3)
    foreign.close()
    assert "overwrote" in desk.said
    await store.close()


def test_a_mark_that_someone_wrote_into_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "store-mark"
    mark = CommitMark(path, renew_s=0.0)
    mark.write(7)
    assert number_in(path.read_bytes()) == 7
    assert number_in((7).to_bytes(8, "little")) == 7, "as older versions wrote it"
    path.write_bytes(JUNK)
    assert number_in(path.read_bytes()) == 0
    mark.renew()
    assert number_in(path.read_bytes()[:12]) == 7
    for how in ("unlink", "empty", "replace"):
        FAULTS[how](path, path)
        mark.renew()
        assert number_in(path.read_bytes()[:12]) == 7
    mark.close()


async def test_a_mark_that_is_removed_is_made_again_by_a_store_that_is_never_idle(tmp_path: Path) -> None:
    """P1: without it a log that is cut later would go unnoticed."""
    desk = Desk(tmp_path, Tuning(look_s=60.0, mark_s=0.0))
    store = await desk.begin()
    mark = desk.path.with_name(desk.path.name + "-mark")
    await asyncio.to_thread(mark.unlink)
    await desk.send(store, 1)
    assert number_in(await asyncio.to_thread(mark.read_bytes)) > BEFORE
    await store.close()


@pytest.mark.parametrize("how", ["empty", "cut", "replace"])
def test_a_damaged_blob_is_written_anew_when_its_bytes_come_again(tmp_path: Path, how: str) -> None:
    """P2: what is accepted with them is readable."""
    blobs = FileBlobs(tmp_path / "blobs")
    data = b"picture" * 1000
    name = blobs.put(data)
    FAULTS[how](tmp_path / "blobs" / name[:2] / name, tmp_path)
    assert not blobs.keep(name), "nothing may be accepted that names it"
    assert blobs.offer(data) == name
    assert blobs.get(name) == data
    assert blobs.keep(name)


def test_a_sweep_takes_what_a_crash_left_and_is_not_held_up_by_what_went_meanwhile(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path / "blobs")
    names = [blobs.put(data) for data in (b"one", b"two", b"three")]
    first, gone, _ = [tmp_path / "blobs" / name[:2] / name for name in names]
    half = first.with_name(f".{names[0]}.0badf00d")
    half.write_bytes(b"half")
    first.with_name("f" * 64).symlink_to("nowhere")  # in the listing, but not there for a look at it
    assert sorted(blobs.untouched_since(ANY_AGE_S)) == sorted(names)
    assert not half.exists()
    gone.unlink()
    dropped = [blobs.drop_untouched(name, ANY_AGE_S, is_named=lambda _: False) for name in names]
    assert dropped == [True, False, True]


async def test_readers_go_on_with_what_was_there_when_another_file_has_its_name(tmp_path: Path) -> None:
    """P7: nobody is shown another store's log."""
    desk = Desk(tmp_path)
    store = await desk.begin()
    assert await store.listed("s1") is not None
    other = await SqliteStore.open(tmp_path / "other.db")
    await begin(other, "theirs")
    await other.close()
    (tmp_path / "other.db").replace(desk.path)
    found = await asyncio.gather(*[store.sessions(SessionQuery()) for _ in range(8)])
    assert {tuple(one.row.session_id for one in listed) for listed in found} == {("s1",)}
    await store.close()


@pytest.mark.parametrize("later", [0, LATER], ids=["idle", "used"])
async def test_an_older_index_written_over_the_index_hides_nothing_for_long(
    tmp_path: Path, later: int
) -> None:
    """P1, P2: the log would be written over from where it was then."""
    desk = Desk(tmp_path)
    store = await desk.begin()
    await desk.hurt("-shm", "write_back")
    await desk.send(store, later)
    assert bool(later) == ("overwrote" in desk.said)
    await store.close()
    assert await desk.texts() == desk.accepted


class HurtInCommits(SqliteStore):
    """Lets a test do something between the look at the files and the commit."""

    async def commit_around(self, work: Callable[[], None]) -> None:
        def do(transaction: Transaction) -> None:
            transaction.execute("put_note", {"key": "k", "value": b"v"})
            work()

        await self._call(do)


async def test_a_log_that_is_written_over_while_a_commit_is_under_way_is_noticed(tmp_path: Path) -> None:
    """P1, P2: what comes behind it would be unreachable at the next start."""
    desk = Desk(tmp_path)
    await (await desk.begin()).close()
    store = await HurtInCommits.open(desk.path)
    assert isinstance(store, HurtInCommits)
    await desk.send(store, 3)
    log = desk.folder / "journal.db-wal"
    await store.commit_around(lambda: FAULTS["write_back"](log, desk.older / log.name))
    await desk.send(store, 1)
    assert "overwrote" in desk.said
    await store.close()
    assert await desk.texts() == desk.accepted
