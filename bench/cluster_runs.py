"""How soon a stop at one server, or the death of another, reaches a run.

`bench/cluster.py` calls this. It starts two servers as programs of their own, and reads the times of the
events in the log. So a time has whole milliseconds, and has everything in it from one event to the next.
"""

import asyncio
import statistics
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from holdfast import events as e
from holdfast.chaos import ChaosServer, SayWords, Script, SeenRequest
from holdfast.features.postgres.store import PostgresStore
from holdfast.redaction import NO_SECRETS

STOPS = 200
DEATHS = 3
WAIT_S = 60.0

Kind = TypeVar("Kind", bound=e.Event)


def answer_for_long(_: SeenRequest) -> Script:
    """An answer that no run gets to the end of."""
    return [SayWords("word " * 20_000, 0.02)]


async def measure_runs() -> None:
    """Print how soon runs stop and go on."""
    cluster: Any = import_module("runner.cluster_nodes").cluster
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        async with (
            ChaosServer(choose=answer_for_long) as model,
            aiohttp.ClientSession() as http,
            cluster(Path(folder), model.base_url, http, nodes=2, seed=1) as servers,
        ):
            store = await PostgresStore.open(servers.dsn, NO_SECRETS, name="bench")
            try:
                await stops(servers.nodes, http, store)
                await deaths(servers.nodes, http, store)
            finally:
                await store.close()


async def started(node: Any, http: aiohttp.ClientSession, store: PostgresStore, session_id: str) -> str:
    """The id of a run that this server owns and that has begun to answer."""
    body = {"input": "hi", "session_id": session_id}
    async with http.post(f"{node.url}/v1/runs", json=body) as response:
        run_id: str = (await response.json())["run_id"]
    await seen(store, session_id, e.TextDelta)
    owner = (await store.place(session_id)).owner
    assert owner == node.name, f"{owner} owns the run that {node.name} has accepted"
    return run_id


async def seen(store: PostgresStore, session_id: str, kind: type[Kind]) -> Kind:
    """The first event of this kind in the log, as soon as it is there."""
    async with asyncio.timeout(WAIT_S):
        async for records in store.follow(session_id):
            for record in records:
                if isinstance(record.event, kind):
                    return record.event
    raise AssertionError(f"{session_id} has ended without {kind.__name__}")


async def stops(nodes: Any, http: aiohttp.ClientSession, store: PostgresStore) -> None:
    """From the input at one server until the run at the other one has ended."""
    took_ms: list[int] = []
    for nth in range(STOPS):
        session_id = f"stopped-{nth}"
        run_id = await started(nodes[nth % 2], http, store, session_id)
        async with http.post(f"{nodes[1 - nth % 2].url}/v1/runs/{run_id}/stop") as response:
            response.raise_for_status()
        ended = await seen(store, session_id, e.RunEnded)
        took_ms.append(ended.at_ms - (await seen(store, session_id, e.StopRequested)).at_ms)
    p50, p99 = statistics.median(took_ms), sorted(took_ms)[int(len(took_ms) * 0.99)]
    print(f"a stop at another server: p50 {p50:g}, p99 {p99} ms until the run has ended (aim: p99 20)")


async def deaths(nodes: Any, http: aiohttp.ClientSession, store: PostgresStore) -> None:
    """From the kill of the owner until the run goes on at the other server."""
    took_s: list[float] = []
    for nth in range(DEATHS):
        node, session_id = nodes[nth % 2], f"orphaned-{nth}"
        await started(node, http, store, session_id)
        killed_s = time.time()
        await node.kill()
        resumed = await seen(store, session_id, e.RunResumed)
        took_s.append(resumed.at_ms / 1000 - killed_s)
        await node.start()
        await node.until_up()
    print(f"dead owner to run.resumed: {', '.join(f'{one:.2f}' for one in took_s)} s (aim: 5)")
