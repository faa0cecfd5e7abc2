"""What a message to a long, quiet session costs: the POST, and the first token.

python bench/long_session.py [--messages 5000] [--posts 20]

Each is measured against the same on a session without a past, in the same run. The first POST finds nothing
of the session in memory; the others find what the first one read.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import aiohttp

from holdfast.chaos import ChaosServer, Say
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.redaction import NO_SECRETS
from restart import configure, conversation, serving


async def fill(path: Path, *, messages: int) -> int:
    """A store with one long session; how many events it has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    store = await SqliteStore.open(path, NO_SECRETS)
    fence = await store.claim("long")
    for nth in range(messages // 2):
        events = conversation(nth)
        await store.append_run("long", events if nth == 0 else events[1:], fence=fence)
    count = await store.last_seq("long")
    await store.close()
    return count


async def post(http: aiohttp.ClientSession, url: str, session_id: str) -> tuple[float, float]:
    """How long the POST took, and how long it was to the first token, in milliseconds."""
    began_s = time.perf_counter()
    async with http.post(f"{url}/v1/runs", json={"input": "and now?", "session_id": session_id}) as answer:
        assert answer.status == 202, await answer.text()
        run_id = (await answer.json())["run_id"]
    post_ms = 1000 * (time.perf_counter() - began_s)
    first_ms = 0.0
    async with http.get(f"{url}/v1/runs/{run_id}/events") as answer:
        async for line in answer.content:
            if b'"message.delta"' in line and not first_ms:
                first_ms = 1000 * (time.perf_counter() - began_s)
    return post_ms, first_ms


async def measure(options: argparse.Namespace) -> None:
    """The long session and a short one, in turns."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp)) / "long"
    async with ChaosServer([Say("yes")], after_last="repeat") as chaos:
        await asyncio.to_thread(configure, folder, chaos)
        events = await fill(folder / "data" / "holdfast.db", messages=options.messages)
        async with serving(folder) as server, aiohttp.ClientSession() as http:
            await post(http, server.url, "other")
            post_ms, first_ms = await post(http, server.url, "long")
            print(f"{options.messages} messages, {events} events")
            print(f"the first time        POST {post_ms:6.1f} ms   first token {first_ms:7.1f} ms")
            found: dict[str, list[tuple[float, float]]] = {"long": [], "short": []}
            for _ in range(options.posts):
                for name, times in found.items():
                    times.append(await post(http, server.url, name))
    for name, times in found.items():
        posts, firsts = zip(*times, strict=True)
        told = f"POST {statistics.median(posts):6.1f} ms   first token {statistics.median(firsts):7.1f} ms"
        print(f"then, the {name:<5} one   {told}")


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--posts", type=int, default=20)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
