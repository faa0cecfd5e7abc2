"""How fast the journal is, against raw SQLite at the same batch sizes and one fsync, all in the same run.

python bench/journal.py [--quick]
"""

import argparse
import asyncio
import gc
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import uvloop

from holdfast import events as e
from holdfast.codec import encode
from holdfast.folds.transcript import fold
from holdfast.interfaces.index import SessionQuery
from holdfast.interfaces.journal import Fence
from holdfast.journal.sqlite.commits import WAL_PAGES_MAX
from holdfast.journal.sqlite.connection import connect_for_writing, migrate
from holdfast.journal.sqlite.queries import queries
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.redaction import NO_SECRETS

AT_MS = 1_700_000_000_000
TEXT = "and so the quick brown fox "
# Large commits are quick while all logs fit into a few pages, so that fewer say nothing of a store in use.
STEADY_COMMITS = 60


@dataclass
class Table:
    """Rows of what was measured, printed as they come."""

    rows: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def add(self, name: str, value: str) -> None:
        """One line."""
        self.rows.append((name, value))
        print(f"{name:<58} {value}", flush=True)


@dataclass(frozen=True)
class Load:
    """What one measurement of writing came to."""

    events_per_s: float
    p50_ms: float
    p99_ms: float

    def __str__(self) -> str:
        return f"{self.events_per_s:>9,.0f} events/s   p50 {self.p50_ms:6.2f} ms   p99 {self.p99_ms:6.2f} ms"


def load(events: int, seconds: float, waits_s: list[float]) -> Load:
    waits_s.sort()
    return Load(events / seconds, waits_s[len(waits_s) // 2] * 1e3, waits_s[int(len(waits_s) * 0.99)] * 1e3)


def delta(nth: int = 0) -> e.TextDelta:
    return e.TextDelta(at_ms=AT_MS + nth, run_id="run_01hqxyzabc", segment=0, text=TEXT)


@asynccontextmanager
async def opened() -> AsyncGenerator[SqliteStore]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        store = await SqliteStore.open(Path(folder) / "journal.db", NO_SECRETS)
        try:
            yield store
        finally:
            await store.close()


async def with_sessions(store: SqliteStore, count: int) -> Fence:
    created = e.SessionCreated(at_ms=AT_MS, epoch="e")
    await asyncio.gather(*[store.append(f"s{nth}", [created]) for nth in range(count)])
    return await store.claim("")


def measure_fsync(folder: Path, times: int) -> Load:
    """Append a page and fsync, as a commit of one event does."""
    waits: list[float] = []
    file = os.open(folder / "fsync", os.O_RDWR | os.O_CREAT)
    for _ in range(times):
        os.write(file, bytes(4_120))
        began = time.perf_counter()
        os.fsync(file)
        waits.append(time.perf_counter() - began)
    os.close(file)
    return load(times, sum(waits), waits)


def measure_raw(folder: Path, batch: int, *, commits: int) -> Load:
    """Commits of `executemany`: an event for each of `batch` sessions, into its log, with our pragmas."""
    path = folder / f"raw{batch}-{time.monotonic_ns()}.db"
    db = connect_for_writing(path, durability="power", vfs=None, lock_s=1.0)
    migrate(db, path)
    db.wal_autocheckpoint(WAL_PAGES_MAX)
    insert = queries()["insert_large"]
    waits: list[float] = []
    began = time.perf_counter()
    for nth in range(commits):
        start = time.perf_counter()
        rows: list[tuple[int, int, int, bytes]] = []
        for session in range(batch):
            body = encode(delta(nth))
            rows.append((session, nth, crc32(body), body))
        db.execute("BEGIN IMMEDIATE")
        db.executemany(insert, rows)
        db.execute("COMMIT")
        waits.append(time.perf_counter() - start)
    seconds = time.perf_counter() - began
    db.close()
    return load(batch * commits, seconds, waits)


async def measure_store(sessions: int, *, appends: int, events: int = 1) -> Load:
    """Each session has one append in flight, as a run has."""
    waits: list[float] = []
    async with opened() as store:
        fence = await with_sessions(store, sessions)

        async def write(session_id: str) -> None:
            for nth in range(appends):
                start = time.perf_counter()
                await store.append_run(session_id, [delta(nth)] * events, fence=fence)
                waits.append(time.perf_counter() - start)

        began = time.perf_counter()
        await asyncio.gather(*[write(f"s{nth}") for nth in range(sessions)])
        seconds = time.perf_counter() - began
    return load(sessions * appends * events, seconds, waits)


async def measure_fan_out(followers: int, *, events: int) -> str:
    """One session writes, many follow; frames are made once."""
    seen = 0
    async with opened() as store:
        fence = await with_sessions(store, 1)

        async def follow() -> None:
            nonlocal seen
            async for batch in store.follow("s0", after=1):
                seen += sum(len(record.frame) > 0 for record in batch)
                if batch[-1].seq == events + 1:
                    break

        following = [asyncio.ensure_future(follow()) for _ in range(followers)]
        await asyncio.sleep(0)
        began = time.perf_counter()
        for nth in range(events):
            await store.append_run("s0", [delta(nth)], fence=fence)
        await asyncio.gather(*following)
        seconds = time.perf_counter() - began
    assert seen == followers * events
    return f"{seen / seconds:>9,.0f} deliveries/s   {seconds / events * 1e3:6.2f} ms an event"


async def measure_replay(events: int) -> str:
    """Open a store with one long log, read and decode all of it, and fold it into a transcript."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        path = Path(folder) / "journal.db"
        store = await SqliteStore.open(path, NO_SECRETS)
        fence = await with_sessions(store, 1)
        await store.append_run("s0", beginning(), fence=fence)
        for nth in range(0, events, 1_000):
            await store.append_run("s0", [delta(nth)] * 1_000, fence=fence)
        await store.close()
        began = time.perf_counter()
        store = await SqliteStore.open(path, NO_SECRETS)
        open_s = time.perf_counter() - began
        began = time.perf_counter()
        pairs: list[tuple[int, e.Event]] = []
        async for batch in store.follow("s0"):
            pairs += [(record.seq, record.event) for record in batch]
            if len(pairs) > events + len(beginning()):
                break
        read_s = time.perf_counter() - began
        began = time.perf_counter()
        fold(pairs)
        fold_s = time.perf_counter() - began
        await store.close()
    return f"open {open_s * 1e3:.1f} ms, read {read_s * 1e3:.0f} ms, fold {fold_s * 1e3:.0f} ms"


def beginning() -> list[e.Event]:
    """What stands in a log before the first delta."""
    run_id = delta().run_id
    return [
        e.MessageAccepted(at_ms=AT_MS, message_id="m", text="go on"),
        e.RunQueued(at_ms=AT_MS, run_id=run_id, message_id="m"),
        e.MessageDispatched(at_ms=AT_MS, run_id=run_id, message_id="m"),
        e.RunStarted(at_ms=AT_MS, run_id=run_id),
        e.CallStarted(at_ms=AT_MS, run_id=run_id, call_id="c", turn=1),
        e.AttemptStarted(at_ms=AT_MS, run_id=run_id, call_id="c", attempt_id="a", target="t"),
    ]


async def timed(call: Callable[[], Awaitable[Sequence[object]]], times: int) -> tuple[float, int]:
    """The median in milliseconds, and how many things were found."""
    waits: list[float] = []
    found: Sequence[object] = ()
    for _ in range(times):
        began = time.perf_counter()
        found = await call()
        waits.append(time.perf_counter() - began)
    waits.sort()
    return waits[len(waits) // 2] * 1e3, len(found)


async def measure_index(table: Table, sessions: int) -> None:
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
    async with opened() as store:
        await with_sessions(store, sessions)

        async def fill(nth: int) -> None:
            text = f"{words[nth % 10]} {words[nth // 10 % 10]} number{nth} {TEXT * 5}"
            message = e.MessageAccepted(at_ms=AT_MS + nth, message_id="m", text=text)
            done = e.TextDone(at_ms=AT_MS + nth, run_id="r", segment=0, text=f"{text} answer {TEXT * 20}")
            await store.append(f"s{nth}", [message])
            await store.append_run(f"s{nth}", [done], fence=await store.claim(""))

        for first in range(0, sessions, 1_000):
            await asyncio.gather(*[fill(nth) for nth in range(first, min(first + 1_000, sessions))])
        ms, found = await timed(lambda: store.sessions(SessionQuery()), 50)
        table.add(f"list {found} of {sessions:,} sessions", f"{ms:.2f} ms")
        for query in ("number77", "alpha beta", "fox", f"number{sessions - 1}", "nothinglikeit"):
            ms, found = await timed(lambda query=query: store.search(query), 20)
            table.add(f"search {query!r} ({found} hits) in {sessions:,} sessions", f"{ms:.2f} ms")


def rss_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


async def measure_memory(table: Table, events: int) -> None:
    async with opened() as store:
        fence = await with_sessions(store, 64)
        marks: list[int] = []
        appends = events // 64 // 20

        async def write(session_id: str) -> None:
            for nth in range(appends // 10):
                await store.append_run(session_id, [delta(nth)] * 20, fence=fence)

        for _ in range(10):
            await asyncio.gather(*[write(f"s{nth}") for nth in range(64)])
            gc.collect()
            marks.append(rss_kib())
        shown = " ".join(f"{kib // 1024}" for kib in marks)
        table.add(f"RSS in MiB after each tenth of {events:,} events", shown)


async def measure_followers(table: Table, count: int) -> None:
    """Each follower waits in a task of its own, half of them for a session that nobody else follows."""

    async def follow(store: SqliteStore, session_id: str) -> None:
        async for _ in store.follow(session_id, after=1):
            pass

    async with opened() as store:
        await with_sessions(store, count)
        gc.collect()
        before = rss_kib()
        tasks = [asyncio.ensure_future(follow(store, f"s{nth if nth % 2 else 0}")) for nth in range(count)]
        await store.last_seq("s0")
        gc.collect()
        table.add(f"memory for each of {count:,} idle followers", f"{(rss_kib() - before) / count:.1f} KiB")
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def measure_writing(table: Table, *, scale: int) -> None:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        fsync = measure_fsync(folder, 500 // scale)
        table.add("one fsync after a page", f"p50 {fsync.p50_ms:.2f} ms   p99 {fsync.p99_ms:.2f} ms")
        for sessions, times in ((1, 2_000 // scale), (64, 400 // scale), (1_000, STEADY_COMMITS)):
            raw = measure_raw(folder, sessions, commits=times)
            table.add(f"raw executemany, {sessions:,} events a commit", str(raw))
            ours = await measure_store(sessions, appends=times)
            table.add(f"store, {sessions:,} sessions, one delta each", str(ours))
            above_ms = ours.p50_ms - fsync.p50_ms
            table.add(
                "", f"{ours.events_per_s / raw.events_per_s:.2f} of raw; p50 {above_ms:+.2f} ms to fsync"
            )
        raw = measure_raw(folder, 1_024, commits=STEADY_COMMITS)
        ours = await measure_store(64, appends=STEADY_COMMITS, events=16)
        table.add("raw executemany, 1,024 events a commit", str(raw))
        table.add("store, 64 sessions, 16 deltas an append", str(ours))
        table.add("", f"{ours.events_per_s / raw.events_per_s:.2f} of raw")


async def measure(*, scale: int) -> None:
    table = Table()
    await measure_writing(table, scale=scale)
    for followers, events in ((1, 1_000), (100, 500), (1_000, 100)):
        rate = await measure_fan_out(followers, events=max(20, events // scale))
        table.add(f"fan-out to {followers:,} followers", rate)
    for events in (10_000, 100_000 // scale):
        table.add(f"replay of {events:,} events", await measure_replay(events))
    await measure_index(table, 10_000 // scale)
    await measure_memory(table, 1_000_000 // scale)
    await measure_followers(table, 10_000 // scale)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work; figures are rough")
    quick: bool = parser.parse_args().quick
    uvloop.run(measure(scale=10 if quick else 1))


if __name__ == "__main__":
    sys.exit(main())
