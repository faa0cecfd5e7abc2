"""How fast the Postgres store is beside the bare library, and how soon another node sees an append.

    python bench/cluster.py postgresql://user@127.0.0.1:5432/an_empty_database

Everything is measured in one run on one machine, the bare library and the store in turns, so compare the
ratios, not the milliseconds. The database must be empty; the script leaves its tables in it.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from holdfast.codec import encode
from holdfast.events import RunQueued, SessionCreated, TextDelta
from holdfast.interfaces.journal import Fence
from holdfast.journal.postgres.store import PostgresStore

TURNS = 20
PER_TURN = 50
SESSIONS = 64
NOTICES = 500
IDLE_S = 10.0
DELTA = TextDelta(at_ms=1, run_id="r", segment=0, text="a few words of an answer ")

Call = Callable[[], Awaitable[object]]
_connect: Any = getattr(asyncpg, "connect")  # noqa: B009  # the library has few types


class Times:
    """How long calls took: on the clock, and of this process's processor time."""

    def __init__(self) -> None:
        self.wall_ms: list[float] = []
        self.cpu_ms: list[float] = []

    async def add(self, call: Call) -> None:
        """Make one call."""
        start, cpu = time.perf_counter(), time.process_time()
        await call()
        self.wall_ms.append((time.perf_counter() - start) * 1000)
        self.cpu_ms.append((time.process_time() - cpu) * 1000)

    def say(self, name: str) -> None:
        """Print the middle and the slowest."""
        wall = sorted(self.wall_ms)
        p50, p99 = statistics.median(wall), wall[int(len(wall) * 0.99)]
        cpu = statistics.median(self.cpu_ms)
        print(f"{name:42} p50 {p50:6.2f} ms   p99 {p99:6.2f} ms   of this process {cpu:6.3f} ms")


async def in_turns(bare: Call, ours: Call) -> tuple[Times, Times]:
    """Some calls of one, then some of the other, so that both meet the same load."""
    both = Times(), Times()
    for turn in range(TURNS + 1):
        for times, call in zip(both, (bare, ours), strict=True):
            for _ in range(PER_TURN):
                await (Times() if turn == 0 else times).add(call)  # the first turn warms up
    return both


async def begin(store: PostgresStore, session_id: str) -> Fence:
    queued = RunQueued(at_ms=1, run_id=f"{session_id}-r", message_id="m")
    await store.append(session_id, [SessionCreated(at_ms=1, epoch="e"), queued])
    return await store.claim(session_id)


def bare(connection: Any, count: int) -> Call:
    """Insert so many rows into a table like `events`."""
    body, seqs = encode(DELTA), iter(range(1, 10_000_000))
    insert = "INSERT INTO bare SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[])"

    async def call() -> None:
        keys, rows = list(range(count * 1000, count * 1000 + count)), [next(seqs)] * count
        await connection.execute(insert, keys, rows, [7] * count, [body] * count)

    return call


def ours(store: PostgresStore, fences: dict[str, Fence]) -> Call:
    """Append a delta to each of these sessions at once."""

    async def call() -> None:
        await asyncio.gather(*[store.append_run(name, [DELTA], fence=fences[name]) for name in fences])

    return call


async def compare(connection: Any, store: PostgresStore, count: int) -> tuple[Times, Times]:
    fences = {f"s{count}-{nth}": await begin(store, f"s{count}-{nth}") for nth in range(count)}
    both = await in_turns(bare(connection, count), ours(store, fences))
    for name, times in zip(("bare library", "store"), both, strict=True):
        times.say(f"{name}, {count} sessions")
    return both


async def elsewhere(writer: PostgresStore, reader: PostgresStore) -> None:
    """From the return of an append until a follower on another node has it."""
    fence = await begin(writer, "followed")
    following = reader.follow("followed", after=2)
    times = Times()
    for _ in range(NOTICES):
        waiting = asyncio.ensure_future(anext(aiter(following)))
        await writer.append_run("followed", [DELTA], fence=fence)
        await times.add(lambda waiting=waiting: asyncio.wait([waiting]))
    times.say("added for a follower on another node")


async def idle(connection: Any) -> float:
    """How many queries a second two nodes make that have nothing to do, each."""
    asked = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
    await asyncio.sleep(12)  # an idle connection reports what it did after ten seconds
    before = await connection.fetchval(asked)
    await asyncio.sleep(IDLE_S)
    return (await connection.fetchval(asked) - before) / IDLE_S / 2


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dsn")
    dsn = parser.parse_args().dsn
    connection = await _connect(dsn)
    await connection.execute(
        "CREATE TABLE bare (session bigint, seq bigint, crc bigint, body bytea, PRIMARY KEY (session, seq))"
    )
    one = await PostgresStore.open(dsn, name="one")
    try:
        bare_one, ours_one = await compare(connection, one, 1)
        bare_many, ours_many = await compare(connection, one, SESSIONS)
        other = await PostgresStore.open(dsn, name="other")
        try:
            await elsewhere(one, other)
            queries = await idle(connection)
        finally:
            await other.close()
    finally:
        await one.close()
    await connection.execute("DROP TABLE bare")
    connection.terminate()
    added = statistics.median(ours_one.wall_ms) - statistics.median(bare_one.wall_ms)
    ratio = statistics.median(bare_many.wall_ms) / statistics.median(ours_many.wall_ms)
    print(f"single append: bare + {added:.2f} ms (aim: at most 0.2; decision 163 says why it is more)")
    print(f"{SESSIONS} sessions: {ratio:.2f} of the bare library (aim: at least 0.6; the same)")
    for name, its, bares in (
        ("1 session", ours_one, bare_one),
        (f"{SESSIONS} sessions", ours_many, bare_many),
    ):
        times = statistics.median(its.cpu_ms) / statistics.median(bares.cpu_ms)
        print(f"{name}: {times:.1f} times the processor time of the bare library in this process")
    print(f"idle: {queries:.1f} queries/s (aim: at most 5)")


if __name__ == "__main__":
    asyncio.run(main())
