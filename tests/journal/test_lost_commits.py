"""The database loses writes that it had confirmed: those who wrote them write them again.

A real Postgres is stopped and started with a copy of its files from earlier, as after a failover to a standby
that was behind.
"""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from fakes.tcp_proxy import TcpProxy
from holdfast.config.server import ServerSettings
from holdfast.config.settings import Secret, Settings
from holdfast.features.postgres.doctor import check_database
from holdfast.features.postgres.lost_commits import NOTE, loss_in
from holdfast.interfaces.journal import Appended, IdempotencyKey
from journal.labs import PATIENT_TUNING, PostgresLab, until
from journal.sample import begin, delta, message, seqs
from postgres_lab import PostgresServer, own_server, proxied
from stores import PostgresStore

QUICK = replace(PATIENT_TUNING, pause_first_s=0.01, pause_last_s=0.05)
KEY = IdempotencyKey("key", "digest", b"answer", expires_at_ms=1 << 50)


class OlderCopy:
    """A server whose files can be replaced by those of an earlier moment."""

    def __init__(self, server: PostgresServer) -> None:
        assert server.folder is not None
        self.server = server
        self._data, self._copy = server.folder / "data", server.folder / "copy"

    def make(self) -> None:
        self.server.stop("fast")
        _copy(self._data, self._copy)
        self.server.start()

    def roll_back(self) -> None:
        self.server.stop("immediate")
        _copy(self._copy, self._data)
        self.server.start()


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["rm", "-rf", str(target)], check=True)
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


@pytest.fixture(scope="module")
def copy() -> Iterator[OlderCopy]:
    server = own_server()
    yield OlderCopy(server)
    server.close()


@pytest.fixture
async def through(copy: OlderCopy) -> AsyncIterator[tuple[TcpProxy, str]]:
    async with proxied(copy.server, copy.server.database()) as found:
        yield found


async def test_what_a_failover_took_back_is_written_again_under_its_own_seqs(
    copy: OlderCopy, through: tuple[TcpProxy, str], caplog: pytest.LogCaptureFixture
) -> None:
    """What people have seen stays: events, rows, search text and keys."""
    proxy, dsn = through
    store = await PostgresStore.open(dsn, name="one", tuning=QUICK)
    fence = await begin(store, run_id="r1")
    proxy.cut()
    await asyncio.to_thread(copy.make)
    proxy.heal()
    await until(lambda: store.trouble is None)
    assert await store.append_run("s1", [delta("seen by many")], fence=fence) == Appended(3, 3)
    await store.append("s1", [message("searched for: marmalade")], idempotency_key=KEY)
    await begin(store, "s2")
    before = [record.body for record in await store.read("s1")]
    proxy.cut()
    await asyncio.to_thread(copy.roll_back)
    proxy.heal()
    await until(lambda: store.trouble is None)
    assert [record.body for record in await store.read("s1")] == before
    assert seqs(await store.read("s2")) == [1]
    assert [hit.session_id for hit in await store.search("marmalade")] == ["s1"]
    assert await store.stored_response("key", now_ms=1) is not None
    assert await store.append_run("s1", [delta("and on")], fence=fence) == Appended(5, 5)
    lost = loss_in(await store.note(NOTE), now_ms=1)
    assert lost is not None
    assert (lost.node, lost.missing, lost.restored, lost.moved) == ("one", 3, 3, ())
    assert "the database lost 3 writes" in caplog.text
    await store.close()
    direct = copy.server.through(dsn, port=copy.server.port)
    settings = Settings(server=ServerSettings(store=Secret(direct)))
    findings = await asyncio.to_thread(check_database, settings)
    assert [one.state for one in findings if one.name == "lost writes"] == ["fault"]


async def test_a_log_whose_lost_seqs_others_have_used_is_a_new_one_for_its_readers(
    copy: OlderCopy, through: tuple[TcpProxy, str]
) -> None:
    """P7: no reader takes one event for another that had the same seq."""
    proxy, dsn = through
    store = await PostgresStore.open(dsn, name="one", tuning=QUICK)
    await begin(store)
    proxy.cut()
    await asyncio.to_thread(copy.make)
    proxy.heal()
    await until(lambda: store.trouble is None)
    await store.append("s1", [message("lost")])
    row = await store.session("s1")
    following = store.follow("s1", after=2)
    ending = asyncio.ensure_future(anext(following, None))
    proxy.cut()
    await asyncio.to_thread(copy.roll_back)
    direct = copy.server.through(dsn, port=copy.server.port)
    other = await PostgresLab(direct, tuning=QUICK).join()
    assert await other.append("s1", [message("at the same seq")]) == Appended(2, 2)
    proxy.heal()
    await until(lambda: store.trouble is None)
    assert await ending is None
    found = [getattr(record.event, "text", "") for record in await other.read("s1")]
    assert found == ["", "at the same seq", "lost"]
    renewed = await other.session("s1")
    assert row is not None
    assert renewed is not None
    assert renewed.epoch != row.epoch
    assert (await other.append("s1", [message("on")])) == Appended(4, 4)
    kept = await store.session("s1")
    assert kept is not None
    assert kept.epoch == renewed.epoch
    await other.close()
    await store.close()
