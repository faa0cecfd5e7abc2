"""A server makes old logs small by itself, and nobody who reads them can tell."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import apsw
import pytest

from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.folds.transcript import fold
from holdfast.interfaces.journal import Record, Store, StoreLocked
from holdfast.interfaces.system_clock import SystemClock
from holdfast.server.options import Limits, ServerOptions
from holdfast.server.upkeep.purging import AGAIN_S, THINNING_LOOK_S, Thinning
from scene import Scene
from serving import Served, Setting, served, target_of, text_of
from stores import MemoryStore, SqliteStore

if TYPE_CHECKING:
    from holdfast.server.deps import RouteDeps

DAYS_30_S = 30 * 86_400.0
PIECES = [f"word{nth} " for nth in range(40)]


class Watched(SystemClock):
    """Says when the server rests until its next pass, and does not make it wait to try again."""

    def __init__(self) -> None:
        self.rests = asyncio.Event()

    async def sleep_s(self, seconds: float) -> None:
        if seconds == THINNING_LOOK_S:
            self.rests.set()
        await super().sleep_s(0 if seconds == AGAIN_S else seconds)


def long_ago() -> Scene:
    """Two turns with a tool between them, then a second run after a rewind and a compaction."""
    scene = Scene(ms=1_000_000)
    scene.put(e.SessionCreated, epoch="e", title="old")
    scene.send("hi", run_id="r1")
    scene.call()
    scene.pieces(*PIECES)
    scene.of_run(e.TextDone, segment=0, text="".join(PIECES))
    scene.of_run(e.CallEnded, call_id="c1", finish="tools")
    scene.tool("t1", "found it")
    scene.call()
    for word in ("I ", "see"):
        scene.of_run(e.ReasoningDelta, segment=0, text=word)
    scene.of_run(e.ReasoningDone, segment=0, text="I see")
    scene.pieces("the ", "ans", "wer", segment=1)
    scene.of_run(e.TextDone, segment=1, text="the answer")
    scene.of_run(e.CallEnded, call_id="c2", finish="stop")
    scene.ends()
    kept = scene.seq
    scene.send("taken back", run_id="r2")
    scene.call()
    scene.pieces("never ", "mind")
    scene.of_run(e.TextDone, segment=0, text="never mind")
    scene.ends()
    scene.put(e.SessionRewound, to_seq=kept)
    scene.send("and then?", run_id="r3")
    scene.of_run(e.ContextCompacted, upto_seq=kept, summary="an answer was found")
    scene.call()
    scene.pieces("then ", "that")
    scene.of_run(e.TextDone, segment=0, text="then that")
    scene.of_run(e.CallEnded, call_id="c4", finish="stop")
    scene.ends()
    return scene


async def kept_long(store: Store, session_id: str = "s") -> None:
    await store.append(session_id, cast("list[e.Input]", [event for _, event in long_ago().log]))


def thinning(clock: Watched) -> Setting:
    return Setting(clock=clock, options=ServerOptions(limits=Limits(deltas_kept_s=DAYS_30_S)))


async def small(clock: Watched) -> None:
    await clock.rests.wait()


async def answers(server: Served) -> list[Any]:
    """What all kinds of readers get, as far as it does not say in how many pieces."""
    paths = ("/api/sessions", "/api/sessions/s/messages", "/api/sessions/s/messages?limit=2", "/v1/runs")
    found: list[Any] = [await server.get(path) for path in (*paths, "/api/sessions/search?q=word7")]
    found += [await server.get(f"/v1/runs/{run_id}") for run_id in ("r1", "r2", "r3")]
    found.append((await server.call("GET", "/api/sessions/s/export?format=md")).body)
    for run_id in ("r1", "r2", "r3"):
        frames = await server.all_frames(run_id)
        found.append(text_of(frames))
        found.append([frame for frame in frames if not frame.data["event"].endswith(".delta")])
    return found


async def test_old_logs_are_made_small_and_all_that_is_read_of_them_stays_the_same() -> None:
    """P4, P7: over HTTP, in every view."""
    told: list[list[Any]] = []
    sizes: list[int] = []
    for kept_s in (0.0, DAYS_30_S):
        store, clock = MemoryStore(), Watched()
        await kept_long(store)
        setting = Setting(clock=clock, options=ServerOptions(limits=Limits(deltas_kept_s=kept_s)))
        async with ChaosServer() as chaos, served(target_of(chaos), store=store, setting=setting) as server:
            if kept_s:
                await small(clock)
            told.append(await answers(server))
            _, whole = await server.get("/api/sessions/s/export")
            sizes.append(len(whole["events"]))
        await store.close()
    assert told[0] == told[1]
    assert sizes[0] - sizes[1] == (len(PIECES) - 1) + 1 + 2 + 1 + 1


async def test_any_cursor_of_before_goes_on_without_a_loss_or_a_repetition() -> None:
    """P7: as journaled the whole text comes with its end, in hermes' words with the ending."""
    store, clock = MemoryStore(), Watched()
    await kept_long(store)
    log = long_ago().log
    whole = fold(log)
    async with (
        ChaosServer() as chaos,
        served(target_of(chaos), store=store, setting=thinning(clock)) as server,
    ):
        await small(clock)
        run = [seq for seq, event in log if getattr(event, "run_id", "") == "r1"]
        for after in run[:-1]:
            native = await server.all_frames("r1", view="native", after=after)
            assert native[0].id > after
            ids = [frame.id for frame in native]
            assert ids == sorted(set(ids))
            assert native[-1].data["type"] == "run.ended"
            frames = await server.all_frames("r1", after=after)
            assert frames[0].id > after
            assert frames[-1].data["output"] == "the answer"
            assert text_of(frames) in {"".join(PIECES) + "the answer", "the answer", ""}
            _, page = await server.get(f"/v1/runs/r1/events?view=native&cursor={after}")
            assert [event["seq"] for event in page["events"]] == ids
        in_gap = run[0] + 20
        assert in_gap not in {record.seq for record in await store.read("s")}
        seen = [(seq, event) for seq, event in log if seq <= in_gap]
        seen += [(record.seq, record.event) for record in await store.read("s", after=in_gap)]
        assert fold(seen) == whole
        rest = server.follow(f"/api/sessions/s/events?after={in_gap}")
        assert (await anext(rest)).data["type"] == "text.done"
        await rest.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    await store.close()


async def test_a_fork_of_a_thinned_session_says_the_same_as_one_made_before() -> None:
    """P7: a copy has no gaps, and what names a place in the log names the same place there."""
    store, clock = MemoryStore(), Watched()
    await kept_long(store)
    async with ChaosServer() as chaos:
        async with served(target_of(chaos), store=store) as server:
            assert (await server.post("/api/sessions/s/fork", {"session_id": "before"}))[0] == 201
        async with served(target_of(chaos), store=store, setting=thinning(clock)) as server:
            await small(clock)
            assert (await server.post("/api/sessions/s/fork", {"session_id": "after"}))[0] == 201
            in_gap = {"session_id": "half", "at_seq": 20}
            assert (await server.post("/api/sessions/s/fork", in_gap))[0] == 201
            _, half = await server.get("/api/sessions/half/messages")
            assert [one["text"] for one in half["data"] if one["kind"] == "text"] == ["".join(PIECES)]
    before, after = [list(await store.read(session_id, limit=5_000)) for session_id in ("before", "after")]
    assert [record.seq for record in after] == list(range(1, len(after) + 1))
    assert len(after) < long_ago().seq
    shown = [
        [(type(entry), getattr(entry, "text", ""), entry.run_id) for entry in fold(_pairs(records)).entries]
        for records in (before, after)
    ]
    assert shown[0] == shown[1]
    assert [text for _, text, _ in shown[0] if "never mind" in str(text)] == []
    await store.close()


def _pairs(records: list[Record]) -> list[tuple[int, e.Event]]:
    return [(record.seq, record.event) for record in records]


async def test_a_log_that_cannot_be_read_keeps_no_other_from_being_made_small(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """P9, P10: it is said once, with its name."""
    store, clock = await SqliteStore.open(tmp_path / "journal.db"), Watched()
    for session_id in ("s", "other"):
        await kept_long(store, session_id)
    await store.close()
    database = apsw.Connection(str(tmp_path / "journal.db"))
    for table in ("events", "recent"):
        database.execute(f"UPDATE {table} SET crc = 7 WHERE session = 1 AND seq = 12")  # noqa: S608  # ours
    database.close()
    store = await SqliteStore.open(tmp_path / "journal.db")
    caplog.set_level(logging.WARNING)
    async with ChaosServer() as chaos, served(target_of(chaos), store=store, setting=thinning(clock)):
        await small(clock)
    assert caplog.text.count("session s isn't compacted") == 1
    assert len(await store.read("other")) < len(long_ago().log)
    assert len(await store.read("s", after=12)) == len(long_ago().log) - 12
    await store.close()


class LockedAtFirst(MemoryStore):
    """Someone else writes when the server wants to."""

    is_locked = True

    async def thin(self, session_id: str, *, before_ms: int) -> AsyncGenerator[int]:
        if self.is_locked:
            self.is_locked = False
            raise StoreLocked("a backup holds the lock")
        async for count in super().thin(session_id, before_ms=before_ms):
            yield count


async def test_a_pass_that_the_store_refused_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """P9."""
    store, clock = LockedAtFirst(), Watched()
    await kept_long(store)
    caplog.set_level(logging.WARNING)
    async with ChaosServer() as chaos, served(target_of(chaos), store=store, setting=thinning(clock)):
        await small(clock)
    assert "will try again: a backup holds the lock" in caplog.text
    assert len(await store.read("s")) < len(long_ago().log)
    await store.close()


class _Means:
    """As much of a server's means as the task looks at."""

    def __init__(self, store: Store, *, kept_s: float) -> None:
        self.store = store
        self.clock = SystemClock()
        self.limits = Limits(deltas_kept_s=kept_s)


async def test_with_zero_days_everything_is_kept_for_ever() -> None:
    store = MemoryStore()
    await kept_long(store)
    await Thinning(cast("RouteDeps", _Means(store, kept_s=0))).run()
    assert len(await store.read("s")) == len(long_ago().log)
    assert await Thinning(cast("RouteDeps", _Means(store, kept_s=1))).thin_due() > 0
    await store.close()
