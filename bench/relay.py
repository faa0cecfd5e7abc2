"""The relay beside a bare forwarder: requests per second, CPU per request and token, time to the first token.

python bench/relay.py [REQUESTS] [AT_ONCE]. All servers are processes of their own on loopback: a quick model,
a forwarder that only hands bytes on with the same HTTP client and server, and `holdfast serve`.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

BENCH = Path(__file__).parent
BODY = b'{"model":"main","stream":true,"messages":[{"role":"user","content":"hi"}]}'
TOKENS = 50
TICKS_PER_S = 100
CONFIG = """\
[server]
port = 0
data_dir = "{data}"
api_keys = []
[[targets]]
name = "main"
wire = "chat"
base_url = "{url}/v1"
model = "m"
[relay]
headers = ["x-bench"]
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one server did."""

    name: str
    per_s: float
    cpu_ms: float
    first_ms: float


@asynccontextmanager
async def program(*command: str) -> AsyncGenerator[tuple[int, str]]:
    """A process and the first line that it prints with digits in it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            line = ""
            while not any(map(str.isdigit, line.rpartition(":")[2])):
                line = (await process.stdout.readline()).decode()
                if not line:
                    raise SystemExit(f"{command[0]} did not start")
        draining = asyncio.create_task(process.stdout.read())
        yield process.pid, line
        draining.cancel()
    finally:
        process.terminate()
        await process.wait()


def cpu_s(pid: int) -> float:
    """The CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


async def load(url: str, what: str, *, requests: int, at_once: int) -> tuple[float, list[float]]:
    """Send the requests; returns how long that took, and the times to the first byte of each answer."""
    firsts: list[float] = []
    left = iter(range(requests))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def client() -> None:
            for _ in left:
                began_s = time.perf_counter()
                async with session.post(url, data=BODY, headers={"x-bench": what}) as answer:
                    assert answer.status == 200, await answer.text()
                    await answer.content.readany()
                    firsts.append(time.perf_counter() - began_s)
                    while await answer.content.readany():
                        pass

        began_s = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(at_once)))
        return time.perf_counter() - began_s, firsts


async def measured(name: str, url: str, pid: int, *, requests: int, at_once: int) -> Measured:
    """Warm a server up, then measure it; the first token is timed one request at a time."""
    await load(url, f"burst {TOKENS}", requests=at_once, at_once=at_once)
    before_s = cpu_s(pid)
    took_s, _ = await load(url, f"burst {TOKENS}", requests=requests, at_once=at_once)
    used_s = cpu_s(pid) - before_s
    _, firsts = await load(url, "burst 1", requests=100, at_once=1)
    median_s = sorted(firsts)[len(firsts) // 2]
    return Measured(name, requests / took_s, 1000 * used_s / requests, 1000 * median_s)


async def main(requests: int, at_once: int) -> None:
    """Measure each server in turn, twice, and keep its better figures."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _, line = await stack.enter_async_context(program(str(BENCH / "fake_model.py")))
        model = f"http://127.0.0.1:{line.split()[-1]}"
        pid, line = await stack.enter_async_context(program(str(BENCH / "forwarder.py"), model))
        servers = [("forwarder", f"http://127.0.0.1:{line.split()[-1]}/v1/chat/completions", pid)]
        config = folder / "holdfast.toml"
        config.write_text(CONFIG.format(data=folder / "data", url=model))
        serve = ("-m", "holdfast", "serve", "--config", str(config))
        pid, line = await stack.enter_async_context(program(*serve))
        address = "http://" + line.partition("http://")[2].split("/")[0].split()[0]
        servers.append(("relay", f"{address}/v1/chat/completions", pid))
        found: dict[str, list[Measured]] = {}
        for _ in range(2):
            for name, url, pid in servers:
                one = await measured(name, url, pid, requests=requests, at_once=at_once)
                found.setdefault(name, []).append(one)
    best = {name: max(all_of, key=lambda one: one.per_s) for name, all_of in found.items()}
    for one in best.values():
        per_token_us = 1000 * one.cpu_ms / TOKENS
        print(
            f"{one.name:10} {one.per_s:7.0f} requests/s of {TOKENS} tokens at {at_once} at once, "
            f"{one.cpu_ms:.2f} ms CPU each ({per_token_us:.1f} us per token), "
            f"first byte {one.first_ms:.2f} ms"
        )
    bare, relay = best["forwarder"], best["relay"]
    print(
        f"relay / forwarder: {relay.per_s / bare.per_s:.2f} of the requests/s, "
        f"{relay.cpu_ms / bare.cpu_ms:.2f} of the CPU, "
        f"{relay.first_ms - bare.first_ms:+.2f} ms to the first byte"
    )


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    asyncio.run(main(*(given + [2000, 64][len(given) :])))
