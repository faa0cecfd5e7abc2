"""What thinning old runs brings and costs: the size of the file, the time of a pass, and what others wait.

python bench/thin.py [--runs 1000] [--deltas 400] [--pause-ms 20]

A run that is under way appends a delta every few milliseconds, before the pass and during it.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import cast

import apsw

from holdfast import events as e
from holdfast.interfaces.journal import Fence
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.journal.sqlite.transaction import Transaction
from holdfast.journal.thinning import Joining
from holdfast.redaction import NO_SECRETS

AT_MS = 1_700_000_000_000
LATE_MS = AT_MS + 1_000
QUIET_S = 5.0
BEAT_S = 0.005


class Timed:
    """How long each step held the writer's thread, the commit not included: by the clock and in work."""

    def __init__(self, thin: Callable[[Transaction, Joining], int]) -> None:
        self._thin = thin
        self.steps_s: list[float] = []
        self.works_s: list[float] = []

    def step(self, transaction: Transaction, joining: Joining) -> int:
        """As the step, with the clock in the hand."""
        began_s, worked_s = time.perf_counter(), time.thread_time()
        try:
            return self._thin(transaction, joining)
        finally:
            self.steps_s.append(time.perf_counter() - began_s)
            self.works_s.append(time.thread_time() - worked_s)


def old_run(nth: int, deltas: int) -> list[e.Event]:
    """A session with one finished run."""
    run_id = f"run_{nth:024}"
    pieces = [f"word{piece % 97} " for piece in range(deltas)]
    return [
        e.SessionCreated(at_ms=AT_MS, epoch="e"),
        e.MessageAccepted(at_ms=AT_MS, message_id=f"m{nth}", text="hi"),
        e.RunQueued(at_ms=AT_MS, run_id=run_id, message_id=f"m{nth}"),
        e.RunStarted(at_ms=AT_MS, run_id=run_id, target="main"),
        e.AttemptStarted(at_ms=AT_MS, run_id=run_id, call_id="c", attempt_id="a", target="main"),
        *[e.TextDelta(at_ms=AT_MS, run_id=run_id, segment=0, text=piece) for piece in pieces],
        e.TextDone(at_ms=AT_MS, run_id=run_id, segment=0, text="".join(pieces)),
        e.RunEnded(at_ms=AT_MS, run_id=run_id, outcome="completed"),
    ]


def told(name: str, waits_s: list[float]) -> None:
    """The middle, the tail and the worst of some waits."""
    waits_s = sorted(waits_s)
    p50, p99, worst = (1000 * waits_s[int(part * (len(waits_s) - 1))] for part in (0.5, 0.99, 1.0))
    print(f"{name:<44} p50 {p50:6.2f} ms   p99 {p99:6.2f} ms   worst {worst:6.2f} ms   ({len(waits_s):,})")


def size(path: Path) -> str:
    """The file, and how much of it is free for new pages."""
    database = apsw.Connection(str(path))
    try:
        pages, free, each = (
            int(database.pragma(name)) for name in ("page_count", "freelist_count", "page_size")
        )
    finally:
        database.close()
    mib = each / (1024 * 1024)
    return (
        f"{pages * mib:6.1f} MiB, of which {free * mib:6.1f} MiB are free, {(pages - free) * mib:.1f} in use"
    )


async def live(store: SqliteStore, fence: Fence, waits_s: list[float]) -> None:
    """A run that says something all the time; how long it waits for the disk."""
    delta = e.TextDelta(at_ms=AT_MS, run_id="run_live", segment=0, text="live ")
    while True:
        began_s = time.perf_counter()
        await store.append_run("live", [delta], fence=fence)
        waits_s.append(time.perf_counter() - began_s)
        await asyncio.sleep(BEAT_S)


async def thin_all(store: SqliteStore, pause_s: float) -> tuple[int, float]:
    """One pass as the server makes it; how many events went, and in how many seconds."""
    began_s, gone = time.perf_counter(), 0
    while session_ids := await store.unthinned(before_ms=LATE_MS, limit=100):
        for session_id in session_ids:
            async with aclosing(store.thin(session_id, before_ms=LATE_MS)) as steps:
                async for count in steps:
                    gone += count
                    await asyncio.sleep(pause_s)
    return gone, time.perf_counter() - began_s


async def measure(options: argparse.Namespace) -> None:
    """Fill, look, thin, look."""
    path = Path(await asyncio.to_thread(tempfile.mkdtemp)) / "journal.db"
    store = await SqliteStore.open(path, NO_SECRETS, durability="process")
    for nth in range(options.runs):
        await store.append(f"s{nth}", cast("list[e.Input]", old_run(nth, options.deltas)))
    await store.close()
    print(f"{options.runs:,} runs of {options.deltas:,} deltas")
    print(f"{'before':<44} {await asyncio.to_thread(size, path)}")
    store = await SqliteStore.open(path, NO_SECRETS)
    begin = [
        e.SessionCreated(at_ms=LATE_MS, epoch="e"),
        e.RunQueued(at_ms=LATE_MS, run_id="run_live", message_id="m"),
    ]
    await store.append("live", begin)
    fence = await store.claim("live")
    timed = Timed(Transaction.thin)
    Transaction.thin = lambda self, joining: timed.step(self, joining)  # noqa: PLW0108  # as a method
    for name in ("an append, nothing else going on", "an append during the pass"):
        waits_s: list[float] = []
        living = asyncio.create_task(live(store, fence, waits_s))
        if "during" in name:
            gone, took_s = await thin_all(store, options.pause_ms / 1000)
            told("a step, without its commit", timed.steps_s)
            told("the same, in time at work", timed.works_s)
            print(f"{'the pass':<44} {gone:,} events went in {took_s:.1f} s")
        else:
            await asyncio.sleep(QUIET_S)
        living.cancel()
        await asyncio.wait([living])
        told(name, waits_s)
    await store.close()
    print(f"{'after':<44} {await asyncio.to_thread(size, path)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--deltas", type=int, default=400)
    parser.add_argument("--pause-ms", type=float, default=20.0)
    asyncio.run(measure(parser.parse_args()))
