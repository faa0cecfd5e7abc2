"""How fast the Postgres store is beside the bare library, and how soon another node sees an append.

    python bench/cluster.py postgresql://user@127.0.0.1:5432/an_empty_database

Everything is measured in one run on one machine, so compare the ratios, not the milliseconds. The database
must be empty; the script leaves its tables in it.
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

SINGLE = 1_000
SESSIONS = 64
ROUNDS = 200
NOTICES = 500
DELTA = TextDelta(at_ms=1, run_id="r", segment=0, text="a few words of an answer ")

_connect: Any = getattr(asyncpg, "connect")  # noqa: B009  # the library has few types


async def begin(store: PostgresStore, session_id: str) -> Fence:
    queued = RunQueued(at_ms=1, run_id=f"{session_id}-r", message_id="m")
    await store.append(session_id, [SessionCreated(at_ms=1, epoch="e"), queued])
    return await store.claim(session_id)


async def timed(count: int, call: Callable[[], Awaitable[object]]) -> list[float]:
    took: list[float] = []
    for _ in range(count):
        start = time.perf_counter()
        await call()
        took.append((time.perf_counter() - start) * 1000)
    return sorted(took)


def say(name: str, took: list[float]) -> float:
    p50 = statistics.median(took)
    print(f"{name:52} p50 {p50:7.2f} ms   p99 {took[int(len(took) * 0.99)]:7.2f} ms")
    return p50


async def bare(dsn: str) -> tuple[float, float]:
    """One row a statement, then 64 rows a statement, into a table like `events`."""
    connection = await _connect(dsn)
    await connection.execute(
        "CREATE TABLE bare (session bigint, seq bigint, crc bigint, body bytea, PRIMARY KEY (session, seq))"
    )
    body, seqs = encode(DELTA), iter(range(1, 10_000_000))

    async def one() -> None:
        await connection.execute("INSERT INTO bare VALUES (0, $1, $2, $3)", next(seqs), 7, body)

    async def many() -> None:
        seq = next(seqs)
        await connection.execute(
            "INSERT INTO bare SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[])",
            list(range(1, SESSIONS + 1)),
            [seq] * SESSIONS,
            [7] * SESSIONS,
            [body] * SESSIONS,
        )

    single = say("bare library, one event", await timed(SINGLE, one))
    batch = say(f"bare library, {SESSIONS} events a statement", await timed(ROUNDS, many))
    await connection.execute("DROP TABLE bare")
    connection.terminate()
    return single, batch


async def ours(store: PostgresStore) -> tuple[float, float]:
    """The same through the store: one session, then 64 at once."""
    fence = await begin(store, "one")
    single = say(
        "store, one event", await timed(SINGLE, lambda: _wait(store.append_run("one", [DELTA], fence=fence)))
    )
    fences = {f"s{nth}": await begin(store, f"s{nth}") for nth in range(SESSIONS)}

    async def many() -> None:
        await asyncio.gather(*[store.append_run(name, [DELTA], fence=fences[name]) for name in fences])

    return single, say(f"store, {SESSIONS} sessions at once", await timed(ROUNDS, many))


async def _wait(appending: Awaitable[object]) -> None:
    await appending


async def elsewhere(writer: PostgresStore, reader: PostgresStore) -> None:
    """From the return of an append until a follower on another node has it."""
    fence = await begin(writer, "followed")
    following = reader.follow("followed", after=2)
    took: list[float] = []
    for _ in range(NOTICES):
        waiting = asyncio.ensure_future(anext(aiter(following)))
        await writer.append_run("followed", [DELTA], fence=fence)
        start = time.perf_counter()
        await waiting
        took.append((time.perf_counter() - start) * 1000)
    say("added for a follower on another node", sorted(took))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dsn")
    dsn = parser.parse_args().dsn
    bare_single, bare_batch = await bare(dsn)
    one = await PostgresStore.open(dsn, name="one")
    other = await PostgresStore.open(dsn, name="other")
    try:
        single, batch = await ours(one)
        await elsewhere(one, other)
    finally:
        await one.close()
        await other.close()
    print(f"single append: bare + {single - bare_single:.2f} ms (aim: at most 0.2)")
    print(f"{SESSIONS} sessions: {bare_batch / batch:.2f} of the bare library (aim: at least 0.6)")


if __name__ == "__main__":
    asyncio.run(main())
