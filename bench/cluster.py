"""How fast the Postgres store is beside the bare library, what an event costs, and how soon others see it.

    python bench/cluster.py [postgresql://user@127.0.0.1:5432/an_empty_database]

Without an address it starts a Postgres of its own. Then it also measures what an event costs with more nodes,
and how soon writes go on after a restart.

Both sides insert the same bodies into the same partitioned table with the same key, as many rows in a
statement, with the same durability, and take turns on the same event loop. The bare side is one statement
with the arrays ready-made: it has no fence, no locks, no followers, nobody who waits for a single row, and it
tells nobody. All of that is what the store adds. Compare the ratios and the processor time; milliseconds on a
clock say little on a busy machine.
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import asyncpg
import uvloop

from holdfast.codec import encode
from holdfast.events import RunQueued, SessionCreated, TextDelta
from holdfast.interfaces.journal import Fence
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.postgres.store import PostgresStore
from holdfast.journal.retrying_append import RetryingAppend

TURNS = 20
PER_TURN = 50
SESSIONS = 64
NOTICES = 500
IDLE_S = 10.0
NODES = (1, 2, 4)
AWAY_S = 10.0
RESTARTS = 5
DELTA = TextDelta(at_ms=1, run_id="r", segment=0, text="a few words of an answer ")

Call = Callable[[], Awaitable[object]]
_connect: Any = getattr(asyncpg, "connect")  # noqa: B009  # the library has few types


class Times:
    """How long calls took: on the clock, and of this process's and the database's processor time."""

    def __init__(self) -> None:
        self.wall_ms: list[float] = []
        self.cpu_ms: list[float] = []
        self.server_ms: list[float] = []

    async def turn(self, call: Call, backends: Sequence[int]) -> None:
        """Make some calls."""
        cpu, server, walls = time.process_time(), processor_s(backends), list[float]()
        for _ in range(PER_TURN):
            start = time.perf_counter()
            await call()
            walls.append((time.perf_counter() - start) * 1000)
        self.wall_ms += walls
        self.cpu_ms.append((time.process_time() - cpu) * 1000 / PER_TURN)
        self.server_ms.append((processor_s(backends) - server) * 1000 / PER_TURN)

    def say(self, name: str) -> None:
        """Print the middle, the best and the slowest."""
        wall = sorted(self.wall_ms)
        p50, p99, best = statistics.median(wall), wall[int(len(wall) * 0.99)], wall[len(wall) // 20]
        cpu, server = statistics.median(self.cpu_ms), statistics.median(self.server_ms)
        print(
            f"{name:26} p5 {best:6.2f} p50 {p50:6.2f} p99 {p99:6.2f} ms   "
            f"processor: here {cpu:6.3f}, database {server:6.3f} ms"
        )


def processor_s(pids: Sequence[int]) -> float:
    """The processor time of the database's processes, if they are on this machine."""
    total = 0
    for pid in pids:
        try:
            total += int(Path(f"/proc/{pid}/schedstat").read_text("ascii").split()[0])
        except OSError:
            continue
    return total / 1e9


async def backends_of(connection: Any) -> list[int]:
    """The server processes of all connections to this database."""
    found = await connection.fetch("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
    return [row["pid"] for row in found]


async def begin(store: PostgresStore, session_id: str) -> Fence:
    queued = RunQueued(at_ms=1, run_id=f"{session_id}-r", message_id="m")
    await store.append(session_id, [SessionCreated(at_ms=1, epoch="e"), queued])
    return await store.claim(session_id)


def bare(connection: Any, count: int) -> Call:
    """Insert so many rows into the table of events, for sessions that nobody has."""
    body, seqs = encode(DELTA), iter(range(1, 10_000_000))
    insert = "INSERT INTO events SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[])"
    keys = list(range(-count * 1000, -count * 1000 + count))

    async def call() -> None:
        await connection.execute(insert, keys, [next(seqs)] * count, [7] * count, [body] * count)

    return call


def ours(store: PostgresStore, fences: dict[str, Fence]) -> Call:
    """Append a delta to each of these sessions at once."""

    async def call() -> None:
        await asyncio.gather(*[store.append_run(name, [DELTA], fence=fences[name]) for name in fences])

    return call


async def compare(connection: Any, store: PostgresStore, count: int) -> None:
    fences = {f"s{count}-{nth}": await begin(store, f"s{count}-{nth}") for nth in range(count)}
    calls, sides = (bare(connection, count), ours(store, fences)), (Times(), Times())
    pids = await backends_of(connection)
    for turn in range(TURNS + 1):
        for times, call in zip(sides, calls, strict=True):
            await (times if turn else Times()).turn(call, pids)  # the first turn warms up
    for name, times in zip(("bare library", "store"), sides, strict=True):
        times.say(f"{name}, {count} sessions")
    bares, its = sides
    if count == 1:
        added = statistics.median(its.wall_ms) - statistics.median(bares.wall_ms)
        print(f"  single append: bare + {added:.2f} ms (aim: at most 0.2)")
    else:
        ratio = statistics.median(bares.wall_ms) / statistics.median(its.wall_ms)
        print(f"  {count} sessions: {ratio:.2f} of the bare library (aim: at least 0.6)")
    here, server = (
        statistics.median(getattr(its, part)) / statistics.median(getattr(bares, part))
        for part in ("cpu_ms", "server_ms")
    )
    print(f"  processor time of the bare library: {here:.1f} times here, {server:.1f} times in the database")


async def elsewhere(writer: PostgresStore, reader: PostgresStore) -> None:
    """From the return of an append until a follower on another node has it."""
    fence = await begin(writer, "followed")
    following = reader.follow("followed", after=2)
    waited: list[float] = []
    for _ in range(NOTICES):
        waiting = asyncio.ensure_future(anext(aiter(following)))
        await writer.append_run("followed", [DELTA], fence=fence)
        start = time.perf_counter()
        await asyncio.wait([waiting])
        waited.append((time.perf_counter() - start) * 1000)
    p50, p99 = statistics.median(waited), sorted(waited)[int(len(waited) * 0.99)]
    print(f"added for a follower on another node: p50 {p50:.2f}, p99 {p99:.2f} ms (aims: 2 and 10)")


async def by_nodes(postgres: Any) -> None:
    """The processor time of an event, with the same number of sessions on each of more and more nodes.

    Each number of nodes has a database of its own, because all nodes of a database hear of each other's
    appends. All nodes are in this process, so it counts what they do together. They take turns, too.
    """
    async with AsyncExitStack() as stack:
        fleets: list[tuple[Call, Times, list[int]]] = []
        for count in NODES:
            dsn: str = await asyncio.to_thread(postgres.database)
            stores = [await stack.enter_async_context(node(dsn, f"node-{nth}")) for nth in range(count)]
            calls = [await appending(store) for store in stores]
            connection = await _connect(dsn)
            together = partial(all_of, calls)
            fleets.append((together, Times(), await backends_of(connection)))
            connection.terminate()
        for turn in range(TURNS + 1):
            for call, times, pids in fleets:
                await (times if turn else Times()).turn(call, pids)
    first: float | None = None
    for count, (_, times, _) in zip(NODES, fleets, strict=True):
        events = SESSIONS * count
        here, server = (statistics.median(one) * 1000 / events for one in (times.cpu_ms, times.server_ms))
        first = first or here + server
        print(
            f"{count} nodes: an event costs {here:.1f} µs here and {server:.1f} in the database, "
            f"{(here + server) / first:.2f} of one node (aim: 0.85 to 1.15)"
        )


async def appending(store: PostgresStore) -> Call:
    """Appends to sessions of this node."""
    names = [f"{store.node.name}-{nth}" for nth in range(SESSIONS)]
    return ours(store, {name: await begin(store, name) for name in names})


async def all_of(calls: Sequence[Call]) -> None:
    await asyncio.gather(*[call() for call in calls])


@asynccontextmanager
async def node(dsn: str, name: str) -> AsyncGenerator[PostgresStore]:
    store = await PostgresStore.open(dsn, name=name)
    try:
        yield store
    finally:
        await store.close()


async def idle(connection: Any) -> float:
    """How many queries a second two nodes make that have nothing to do, each."""
    asked = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
    await asyncio.sleep(12)  # an idle connection reports what it did after ten seconds
    before = await connection.fetchval(asked)
    await asyncio.sleep(IDLE_S)
    return (await connection.fetchval(asked) - before) / IDLE_S / 2


async def restarts(postgres: Any, dsn: str) -> None:
    """From the moment at which Postgres accepts connections until a run that waits has written again."""
    took: list[float] = []
    async with node(dsn, "restarted") as store:
        fence = await begin(store, "waits")
        run = RetryingAppend(store, SystemClock(), run=("waits", "waits-r"), fence=fence, last_seq=2)
        for _ in range(RESTARTS):
            await run.append([DELTA])
            await asyncio.to_thread(postgres.stop)
            writing = asyncio.create_task(run.append([DELTA]))
            await asyncio.sleep(AWAY_S)
            await asyncio.to_thread(postgres.start)
            start = time.perf_counter()
            await writing
            took.append(time.perf_counter() - start)
    print(
        f"writes go on after a restart of {AWAY_S:g} s: {', '.join(f'{one:.2f}' for one in took)} s (aim: 1)"
    )


async def measure(dsn: str, postgres: Any) -> None:
    connection = await _connect(dsn)
    async with node(dsn, "one") as one:
        await compare(connection, one, 1)
        await compare(connection, one, SESSIONS)
        async with node(dsn, "other") as other:
            await elsewhere(one, other)
            print(f"idle: {await idle(connection):.1f} queries/s (aim: at most 5)")
    connection.terminate()
    if postgres is not None:
        await by_nodes(postgres)
        await restarts(postgres, dsn)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dsn", nargs="?", default="")
    given = parser.parse_args().dsn
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    if given:
        uvloop.run(measure(given, None))
        return
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    postgres: Any = import_module("postgres_lab").own_server(
        fsync="on", full_page_writes="on", synchronous_commit="on"
    )
    try:
        uvloop.run(measure(postgres.database(), postgres))
    finally:
        postgres.close()


if __name__ == "__main__":
    main()
