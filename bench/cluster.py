"""How fast the Postgres store is beside the bare library, what an event costs, and how soon others see it.

    python bench/cluster.py [postgresql://user@127.0.0.1:5432/an_empty_database]

Without an address it starts a Postgres of its own. Then it also measures what an event costs with more nodes,
how long they wait for each other's locks, how soon writes go on after a restart, and how soon a stop or a
death reaches a run (`cluster_runs.py`).

Both sides insert the same bodies into the same partitioned table with the same key, as many rows in a
statement, with the same durability, and take turns on the same event loop. The bare side is one statement
with the arrays ready-made: it has no fence, no locks, no followers, nobody who waits for a single row, and it
tells nobody. All of that is what the store adds. There, each session is a task that appends a delta, waits
until it is written, and appends the next. How many rows a statement of the store had is printed with the
figures. The garbage collector works as seldom as in a server. Compare the ratios and the processor time;
milliseconds on a clock say little on a busy machine.
"""

import argparse
import asyncio
import gc
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import asyncpg
import uvloop
from msgspec.structs import replace

from cluster_runs import measure_runs
from holdfast.cli.serve import COLLECTED_AFTER
from holdfast.codec import encode
from holdfast.events import RunQueued, SessionCreated, TextDelta, Usage
from holdfast.features.postgres.store import PostgresStore
from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.interfaces.journal import Fence
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.retrying_append import RetryingAppend
from holdfast.redaction import NO_SECRETS

TURNS = 20
PER_TURN = 50
SESSIONS = 64
NOTICES = 500
IDLE_S = 10.0
NODES = (1, 2, 4)
AWAY_S = 10.0
LOOK_S = 0.003
ANSWERS = 20
DELTAS = 50
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

    async def turn(self, calls: Sequence[Call], backends: Sequence[int]) -> None:
        """Make each of these calls some times, one after the other, and all of them side by side."""
        cpu, server = time.process_time(), processor_s(backends)
        await asyncio.gather(self._timed(calls[0]), *map(repeated, calls[1:]))
        self.cpu_ms.append((time.process_time() - cpu) * 1000 / PER_TURN)
        self.server_ms.append((processor_s(backends) - server) * 1000 / PER_TURN)

    async def _timed(self, call: Call) -> None:
        for _ in range(PER_TURN):
            start = time.perf_counter()
            await call()
            self.wall_ms.append((time.perf_counter() - start) * 1000)

    def say(self, name: str) -> None:
        """Print the middle, the best and the slowest."""
        wall = sorted(self.wall_ms)
        p50, p99, best = statistics.median(wall), wall[int(len(wall) * 0.99)], wall[len(wall) // 20]
        cpu, server = statistics.median(self.cpu_ms), statistics.median(self.server_ms)
        print(
            f"{name:26} p5 {best:6.2f} p50 {p50:6.2f} p99 {p99:6.2f} ms   "
            f"processor: here {cpu:6.3f}, database {server:6.3f} ms"
        )


async def repeated(call: Call) -> None:
    for _ in range(PER_TURN):
        await call()


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


def ours(store: PostgresStore, fences: dict[str, Fence]) -> list[Call]:
    """Appends of a delta, one for each of these sessions."""
    return [partial(store.append_run, name, [DELTA], fence=fence) for name, fence in fences.items()]


async def compare(connection: Any, store: PostgresStore, count: int) -> None:
    fences = {f"s{count}-{nth}": await begin(store, f"s{count}-{nth}") for nth in range(count)}
    calls, sides = ([bare(connection, count)], ours(store, fences)), (Times(), Times())
    pids = await backends_of(connection)
    for turn in range(TURNS + 1):
        for times, some in zip(sides, calls, strict=True):
            await (times if turn else Times()).turn(some, pids)  # the first turn warms up
    for name, times in zip(("bare library", "store"), sides, strict=True):
        times.say(f"{name}, {count} sessions")
    bares, its = sides
    print(
        f"  rows in a statement of the store: {await rows_per_statement(connection, fences):.1f} of {count}"
    )
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


async def rows_per_statement(connection: Any, session_ids: Iterable[str]) -> float:
    """How many events of these sessions were written together on average, but for their first ones."""
    return await connection.fetchval(
        "SELECT count(*)::float8 / count(DISTINCT events.xmin::text) "
        "FROM events JOIN sessions ON session = key WHERE session_id = ANY ($1) AND seq > 2",
        list(session_ids),
    )


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
    appends. All nodes are in this process, so it counts what they do together. They take turns, too. The rows
    in a statement show that each has as many, however many nodes there are.

    Nodes that share a processor take as many times longer for a statement as there are nodes. So the pause
    between their notices is longer by as much. Otherwise a notice would tell of fewer statements than on
    machines of their own, and an event would cost more for that reason alone.
    """
    async with AsyncExitStack() as stack:
        fleets = [await fleet(stack, await asyncio.to_thread(postgres.database), count) for count in NODES]
        for turn in range(TURNS + 1):
            for one in fleets:
                await (one.times if turn else Times()).turn(one.calls, one.pids)
        first: float | None = None
        for one in fleets:
            times, events = one.times, len(one.calls)
            here, server = (statistics.median(ms) * 1000 / events for ms in (times.cpu_ms, times.server_ms))
            first = first or here + server
            print(
                f"{len(one.names)} nodes: {here:.1f} µs here and {server:.1f} in the database for an event, "
                f"{(here + server) / first:.2f} of one node (aim: 0.85 to 1.15), "
                f"with {await rows_per_statement(one.connection, one.session_ids):.1f} rows in a statement"
            )
        await lock_waits(fleets[-1])


@dataclass(frozen=True, slots=True)
class Fleet:
    """Some nodes that share a database, with the appends of their sessions."""

    names: Sequence[str]
    session_ids: Sequence[str]
    calls: Sequence[Call]
    loud: Sequence[Call]  # appends with the usage of a model call, which all nodes add up in the same row
    connection: Any
    pids: list[int]
    times: Times = field(default_factory=Times)


async def fleet(stack: AsyncExitStack, dsn: str, count: int) -> Fleet:
    calls: list[Call] = []
    loud: list[Call] = []
    session_ids: list[str] = []
    usual = PostgresTuning()
    shared = replace(usual, notice_pause_s=usual.notice_pause_s * count)
    for name in [f"node-{nth}" for nth in range(count)]:
        store = await stack.enter_async_context(node(dsn, name, tuning=shared))
        fences = {f"{name}-{nth}": await begin(store, f"{name}-{nth}") for nth in range(SESSIONS)}
        session_ids += fences
        calls += ours(store, fences)
        for session_id, fence in fences.items():
            used = Usage(at_ms=1, run_id=f"{session_id}-r", call_id="c", target="t", output_tokens=1)
            loud.append(partial(store.append_run, session_id, [used], fence=fence))
    connection = await _connect(dsn)
    stack.callback(connection.terminate)
    names = [f"node-{nth}" for nth in range(count)]
    return Fleet(names, session_ids, calls, loud, connection, await backends_of(connection))


async def lock_waits(nodes: Fleet) -> None:
    """The share of its time that each kind of connection waits for a lock, while all nodes write.

    Every session appends deltas, and after each answer what the model call used. All nodes add that up in
    one row of the database, so there is something to wait for.
    """
    answering = [asyncio.create_task(answers(*calls)) for calls in zip(nodes.calls, nodes.loud, strict=True)]
    looks, waits = 0, Counter[str]()
    connections = await nodes.connection.fetch(
        "SELECT application_name, count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name <> '' GROUP BY 1"
    )
    while not all(task.done() for task in answering):
        found = await nodes.connection.fetch(
            "SELECT application_name, count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock' GROUP BY 1"
        )
        looks += 1
        waits.update({row[0]: row[1] for row in found})
        await asyncio.sleep(LOOK_S)
    await asyncio.gather(*answering)
    shares = {name: 100 * waits[name] / (looks * count) for name, count in connections}
    told = ", ".join(f"{name.removeprefix('holdfast ')} {share:.1f} %" for name, share in shares.items())
    print(f"{len(nodes.names)} nodes wait for locks: {told} of the time, in {looks} looks (aim: at most 1)")


async def answers(delta: Call, usage: Call) -> None:
    for _ in range(ANSWERS):
        for _ in range(DELTAS):
            await delta()
        await usage()


@asynccontextmanager
async def node(dsn: str, name: str, *, tuning: PostgresTuning | None = None) -> AsyncGenerator[PostgresStore]:
    store = await PostgresStore.open(dsn, NO_SECRETS, name=name, tuning=tuning)
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
        await measure_runs()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dsn", nargs="?", default="")
    given = parser.parse_args().dsn
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    gc.set_threshold(*COLLECTED_AFTER)
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
