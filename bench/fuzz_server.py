"""Requests without sense, by the thousand: python bench/fuzz_server.py [--requests 20000] [--examples 50].

A real `holdfast serve` on a temporary directory gets malformed requests (seeded, from its own description)
and must refuse each without a failure of its own; afterwards there is no run, session, task or open file more
than before. With --examples, schemathesis holds every answer to the description as well.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import aiohttp
import yarl

from holdfast.chaos import ChaosServer, Say

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fakes.bad_requests import BadRequest, bad_requests

KEY = "a-key-for-the-fuzzer"
CONFIG = """
[server]
port = 0
data_dir = "{folder}/data"
api_keys = ["{key}"]
[[targets]]
name = "main"
wire = "chat"
base_url = "{url}"
model = "m"
api_key = "sk-test-of-a-key"
"""
ENDLESS = r"^/api/events$|^/api/sessions/\{session_id\}/events$"
SETTLE_S = 20.0
WARM_UP = 3000


@asynccontextmanager
async def serving(folder: Path, url: str) -> AsyncGenerator[str]:
    """The address of a server."""
    config = folder / "holdfast.toml"
    config.touch(mode=0o600)
    config.write_text(CONFIG.format(folder=folder, key=KEY, url=url), "utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "serve", "--config", str(config)), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    greeting = (await process.stdout.readline()).decode()
    try:
        yield next(word for word in greeting.split() if word.startswith("http://"))
    finally:
        process.terminate()
        await process.communicate()


async def counted(http: aiohttp.ClientSession, url: str) -> dict[str, float]:
    """What there is of everything that a request could leave behind, and the memory."""
    found: dict[str, Any] = {}
    for path in ("/v1/runs?limit=200", "/api/sessions?all=true&limit=200", "/api/keys"):
        async with http.get(url + path) as answer:
            found[path.partition("?")[0]] = len((await answer.json())["data"])
    async with http.get(f"{url}/metrics") as answer:
        lines = dict(line.rsplit(" ", 1) for line in (await answer.text()).splitlines() if line[:1] != "#")
    found["tasks"] = float(lines["holdfast_event_loop_tasks"])
    found["files"] = float(lines["process_open_fds"])
    found["MB"] = round(float(lines["process_resident_memory_bytes"]) / 1e6, 1)
    return found


async def sent(http: aiohttp.ClientSession, url: str, bad: BadRequest) -> int:
    """The status of one request; raises if the server failed, or did what it was asked."""
    target = yarl.URL(url + bad.target, encoded=True)
    async with http.request(bad.method, target, data=bad.body, headers=bad.headers) as answer:
        body = await answer.read()
    assert answer.status < 500, (bad, body)
    assert bad.method == "GET" or answer.status >= 400, (bad, body)
    assert answer.status < 400 or b'{"error":{"message":' in body, (bad, body)
    return answer.status


async def malformed(url: str, *, requests: int, seed: int, clients: int) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    async with aiohttp.ClientSession(headers=headers) as asking:
        async with asking.get(f"{url}/openapi.json") as answer:
            document = await answer.json()
        statuses: Counter[int] = Counter()

        async def client(source: Iterator[BadRequest]) -> None:
            async with aiohttp.ClientSession(headers=headers) as http:
                for bad in source:
                    statuses[await sent(http, url, bad)] += 1

        warm = islice(bad_requests(document, seed=seed), WARM_UP)  # readers of the store are opened on demand
        await asyncio.gather(*(client(warm) for _ in range(clients)))
        before = await counted(asking, url)
        statuses.clear()
        began_s = time.perf_counter()
        source = islice(bad_requests(document, seed=seed + 1), requests)
        await asyncio.gather(*(client(source) for _ in range(clients)))
        took_s = time.perf_counter() - began_s
        after = await counted(asking, url)
        give_up_s = time.perf_counter() + SETTLE_S
        while any(after[name] > before[name] for name in before if name != "MB"):
            assert time.perf_counter() < give_up_s, ("left behind", before, after)
            await asyncio.sleep(0.2)
            after = await counted(asking, url)
    print(
        f"{requests} malformed requests (seed {seed}), {requests / took_s:.0f} per second: {dict(statuses)}"
    )
    print(f"before {before}\nafter  {after}")


async def described(url: str, folder: Path, *, examples: int, seed: int) -> int:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json"),
        *("--header", f"Authorization: Bearer {KEY}", "--seed", str(seed), "--max-examples", str(examples)),
        *("--checks", "all", "--exclude-checks", "positive_data_acceptance", "--warnings", "off"),
        *("--exclude-path-regex", ENDLESS, "--request-timeout", "30", "--generation-database", "none"),
        cwd=folder,
    )
    return await process.wait()


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--examples", type=int, default=0, help="of schemathesis, for each route")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    code = 0
    with tempfile.TemporaryDirectory() as folder:
        async with (
            ChaosServer([Say("x")], after_last="repeat") as chaos,
            serving(Path(folder), chaos.base_url) as url,
        ):
            await malformed(url, requests=given.requests, seed=given.seed, clients=given.clients)
            assert not chaos.seen.requests, "a malformed request reached the model"
            if given.examples:
                code = await described(url, Path(folder), examples=given.examples, seed=given.seed)
    return code


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
