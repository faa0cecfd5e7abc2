"""What a list says that a run was about."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import apsw
from msgspec.structs import replace

from holdfast import events as e
from holdfast.chaos import ChaosServer, Say
from holdfast.client import Client
from holdfast.folds.rows import RunRow
from holdfast.interfaces.index import RunQuery
from holdfast.interfaces.journal import IfSessionNew, Record, StoreDamaged
from holdfast.journal.sqlite.reader import SqliteReader
from holdfast.server.runs.listing import preview_of, previews_of, refusals_of
from serving import served, target_of
from stores import MemoryStore, SqliteStore
from tables import for_each_row


async def listed(client: Client) -> dict[str, str]:
    return {run.run_id: run.preview for run in (await client.runs()).data}


async def test_a_run_is_listed_with_the_first_words_of_its_message_also_when_it_is_tried_again() -> None:
    async with (
        ChaosServer(after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
        Client(server.url) as client,
    ):
        first = await client.start("  tidy\n up the   attic  ", session_id="s")
        await client.ended(first.run_id)
        second = await client.retry(first.run_id)
        await client.ended(second.run_id)
        third = await client.retry(second.run_id)
        await client.ended(third.run_id)
        long = await client.start("word " * 100, session_id="s")
        assert (await client.ended(long.run_id)).preview.startswith("word word")
        found = await listed(client)
        assert [found[run.run_id] for run in (first, second, third)] == ["tidy up the attic"] * 3
        assert len(found[long.run_id]) == 80
        assert found[long.run_id].endswith("…")


async def test_a_message_that_waited_long_for_its_run_is_found() -> None:
    store = MemoryStore()
    asked = e.MessageAccepted(at_ms=1, message_id="m1", text="and then plant", mode="steer")
    others = [e.SessionRenamed(at_ms=2, title=f"title {nth}") for nth in range(300)]
    queued = e.RunQueued(at_ms=3, run_id="run_1", message_id="m1")
    first: list[e.Input] = [e.SessionCreated(at_ms=1, epoch="x"), asked, *others]
    await store.append("s", first, when=[IfSessionNew()])
    await store.append_run("s", [queued], fence=await store.claim(""))
    row = await store.run("run_1")
    assert row is not None
    assert await preview_of(store, row) == "and then plant"


class Broken:
    """A log that cannot be read."""

    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        del limit
        raise StoreDamaged(f"session {session_id}, seq {after}")

    async def read_each(
        self, places: Sequence[tuple[str, int]], *, limit: int
    ) -> Sequence[Sequence[Record] | StoreDamaged]:
        del limit
        return [StoreDamaged(f"session {session_id}, seq {after}") for session_id, after in places]


class Purged:
    """A log of which nothing is left."""

    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        del session_id, after, limit
        return ()

    async def read_each(
        self, places: Sequence[tuple[str, int]], *, limit: int
    ) -> Sequence[Sequence[Record] | StoreDamaged]:
        del limit
        return [() for _ in places]


class OldRows(MemoryStore):
    """Lists runs as they were a moment before they ended."""

    async def runs(self, query: RunQuery) -> Sequence[RunRow]:
        return [replace(row, status="running", outcome=None) for row in await super().runs(query)]


async def test_a_run_that_ends_while_it_is_listed_has_its_outcome() -> None:
    async with (
        ChaosServer([Say("done")]) as chaos,
        served(target_of(chaos), store=OldRows()) as server,
    ):
        await server.ended(await server.start())
        (run,) = (await server.get("/v1/runs"))[1]["data"]
        assert (run["status"], run["outcome"]) == ("completed", "completed")


@for_each_row("log", [Broken(), Purged()])
async def test_a_session_that_cannot_be_read_does_not_break_the_list(log: Broken | Purged) -> None:
    row = RunRow(run_id="r", session_id="s", first_seq=3, last_seq=9, status="ended", outcome="completed")
    assert await preview_of(log, row) == ""
    assert await refusals_of(log, [row]) == {"r": 0}


async def test_a_page_of_runs_costs_one_look_at_the_store_however_many_they_are(tmp_path: Path) -> None:
    """P10: the list is no burst of small reads, and a damaged log takes only its own line along."""
    store = await SqliteStore.open(tmp_path / "holdfast.db")
    for nth in range(20):
        said = e.MessageAccepted(at_ms=nth, message_id=f"m{nth}", text=f"task {nth}", mode="send")
        queued = e.RunQueued(at_ms=nth, run_id=f"run_{nth}", message_id=f"m{nth}")
        created = e.SessionCreated(at_ms=nth, epoch="x")
        await store.append(f"s{nth}", [created, said, queued], when=[IfSessionNew()])
    rows = await store.runs(RunQuery(limit=50))
    await store.close()
    await asyncio.to_thread(spoil, tmp_path / "holdfast.db", "s3")
    looks: list[int] = []

    class Counted(SqliteReader):
        async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
            looks.append(after)
            return await super().read(session_id, after=after, limit=limit)

    reader = Counted(tmp_path / "holdfast.db")
    found = await previews_of(reader, rows)
    await reader.close()
    assert found == {f"run_{nth}": "" if nth == 3 else f"task {nth}" for nth in range(20)}
    assert looks == []


def spoil(database: Path, session_id: str) -> None:
    """Change what is stored of a session behind the store's back."""
    connection = apsw.Connection(str(database))
    connection.execute(
        "UPDATE recent SET crc = crc + 1 WHERE session = (SELECT key FROM sessions WHERE session_id = ?)",
        [session_id],
    )
    connection.close()
