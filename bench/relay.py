"""The relay beside a bare forwarder: requests per second, CPU per request and token, time to the first byte.

python bench/relay.py [--requests 1000] [--at-once 64] [--rounds 5] [--cache FOLDER] [--without-litellm]

All servers are processes of their own on loopback: a quick model, a forwarder that only hands bytes on with
the same HTTP client and server, `holdfast serve`, and the LiteLLM proxy, which is installed into the cache
folder. They take turns in each round. Short requests get 50 tokens at once; streams get 100, one every 20 ms,
as from a model. The p99 is that of the first byte for 16 clients, each of which sends a request every 0.4 s:
clients that send without a pause would measure the queue in front of a busy core. Each server's best round is
printed, because other work on the machine only adds. The exit status is 1 if the relay costs more, beside the
forwarder, than the limits below allow.
"""

import argparse
import asyncio
import contextlib
import socket
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import aiohttp

from client_environments import ENVIRONMENTS, install, program, search_path

BENCH = Path(__file__).parent
BODY = {"model": "main", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
TOKENS = 50
STREAMED = 100  # tokens of a stream
PACE_MS = 20
PATH = "/v1/chat/completions"
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


LITELLM = """\
model_list:
  - model_name: main
    litellm_params: {{model: openai/m, api_base: "{url}/v1", api_key: none}}
general_settings:
  master_key: {key}
  forward_client_headers_to_llm_api: true
"""
KEY = "sk-bench-0123456789abcdef0123456789abcdef"  # LiteLLM doesn't start without one
LITELLM_SHARE = 20  # it gets one request for so many of the others
STREAM_SHARE = 8  # so many short requests for one stream
STARTS_S = 120
PARALLEL = 16  # clients of the p99
EVERY_S = 0.4  # each of them sends a request
TIMED = 15 * PARALLEL
# What the relay may cost: what it costs on a quiet machine, and a third more for a busy one.
TOKEN_MAX = 2.0
SHORT_MAX = 4.2
SHORT_MS_MAX = 1.0
FIRST_BYTE_MS_MAX = 1.5
P99_MS_MAX = 2.0
SLOWER_MAX = 4.0


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is measured, and how many requests it gets in a round."""

    name: str
    url: str
    pid: int
    requests: int


@dataclass(frozen=True, slots=True)
class Measured:
    """What one server did in one round."""

    per_s: float  # short requests
    cpu_ms: float  # of a short request
    token_us: float  # of CPU for a token of a stream
    first_ms: float
    p99_ms: float  # of the first byte, with several clients


@asynccontextmanager
async def started(*command: str) -> AsyncGenerator[tuple[int, str]]:
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


@asynccontextmanager
async def litellm(cache: Path, config: Path) -> AsyncGenerator[tuple[int, str]]:
    """The LiteLLM proxy, once it answers; raises SystemExit with the reason if it can't be had."""
    await install(cache, "litellm-proxy")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        program(cache, "litellm-proxy", "litellm"),
        *("--config", str(config), "--host", "127.0.0.1", "--port", str(port)),
        *("--telemetry", "False"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        # It would load its map of prices from the web.
        env={"PATH": search_path(), "HOME": str(config.parent), "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    )
    address = f"http://127.0.0.1:{port}"
    try:
        async with aiohttp.ClientSession() as session:
            for _ in range(STARTS_S):
                if process.returncode is not None:
                    raise SystemExit(f"it ended with status {process.returncode}")
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"{address}/health/liveliness") as answer:
                        if answer.status == HTTPStatus.OK:
                            break
                await asyncio.sleep(1)
            else:
                raise SystemExit(f"it did not start within {STARTS_S} s")
        yield process.pid, address
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def cpu_s(pid: int) -> float:
    """The CPU time of all threads of a process so far."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


async def load(
    url: str, what: str, *, requests: int, at_once: int, every_s: float = 0.0
) -> tuple[float, list[float]]:
    """Send the requests; returns how long that took, and the times to the first byte of each answer.

    Each client sends its next request when it has the answer, or at its next turn, which comes `every_s`.
    """
    firsts: list[float] = []
    left = iter(range(requests))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def client(nth: int) -> None:
            next_s = time.perf_counter() + every_s * nth / at_once
            for _ in left:
                await asyncio.sleep(max(0.0, next_s - time.perf_counter()))
                next_s += every_s
                began_s = time.perf_counter()
                headers = {"x-bench": what, "authorization": f"Bearer {KEY}"}
                async with session.post(url, json=BODY, headers=headers) as answer:
                    assert answer.status == 200, await answer.text()
                    await answer.content.readany()
                    firsts.append(time.perf_counter() - began_s)
                    while await answer.content.readany():
                        pass

        began_s = time.perf_counter()
        await asyncio.gather(*map(client, range(at_once)))
        return time.perf_counter() - began_s, firsts


async def measured(server: Server, *, at_once: int) -> Measured:
    """One round of one server; the first byte is timed one request at a time."""
    before_s = cpu_s(server.pid)
    took_s, _ = await load(server.url, f"burst {TOKENS}", requests=server.requests, at_once=at_once)
    short_s = cpu_s(server.pid) - before_s
    before_s, streams = cpu_s(server.pid), max(8, server.requests // STREAM_SHARE)
    await load(server.url, f"paced {STREAMED} {PACE_MS}", requests=streams, at_once=at_once)
    token_s = (cpu_s(server.pid) - before_s) / streams / STREAMED
    _, firsts = await load(server.url, "burst 1", requests=30, at_once=1)
    _, spread = await load(server.url, "burst 1", requests=TIMED, at_once=PARALLEL, every_s=EVERY_S)
    return Measured(
        server.requests / took_s,
        1000 * short_s / server.requests,
        1e6 * token_s,
        1000 * sorted(firsts)[len(firsts) // 10],  # others on the machine delay most of them
        1000 * sorted(spread)[int(0.99 * (TIMED - 1))],
    )


def best(rounds: Sequence[Measured]) -> Measured:
    """The least that each thing cost in any round."""
    return Measured(
        max(one.per_s for one in rounds),
        min(one.cpu_ms for one in rounds),
        min(one.token_us for one in rounds),
        min(one.first_ms for one in rounds),
        min(one.p99_ms for one in rounds),
    )


async def servers(stack: AsyncExitStack, given: argparse.Namespace) -> list[Server]:
    """All servers, started."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    _, line = await stack.enter_async_context(started(str(BENCH / "fake_model.py")))
    model = f"http://127.0.0.1:{line.split()[-1]}"
    pid, line = await stack.enter_async_context(started(str(BENCH / "forwarder.py"), model))
    found = [Server("forwarder", f"http://127.0.0.1:{line.split()[-1]}{PATH}", pid, given.requests)]
    config = folder / "holdfast.toml"
    config.write_text(CONFIG.format(data=folder / "data", url=model))
    pid, line = await stack.enter_async_context(started("-m", "holdfast", "serve", "--config", str(config)))
    address = "http://" + line.partition("http://")[2].split("/")[0].split()[0]
    found.append(Server("relay", address + PATH, pid, given.requests))
    if given.without_litellm:
        return found
    config = folder / "litellm.yaml"
    config.write_text(LITELLM.format(url=model, key=KEY))
    try:
        pid, address = await stack.enter_async_context(litellm(given.cache, config))
    except SystemExit as reason:
        print(f"LiteLLM is left out: {reason}")
        return found
    print(f"{ENVIRONMENTS['litellm-proxy'].versions}, configured with\n{config.read_text()}")
    return [*found, Server("LiteLLM", address + PATH, pid, max(50, given.requests // LITELLM_SHARE))]


def judged(relay: Measured, bare: Measured) -> bool:
    """Print the relay beside the forwarder, with what it may cost; whether it keeps all limits."""
    rows = (
        ("CPU of a token in a stream, times the forwarder's", relay.token_us / bare.token_us, TOKEN_MAX),
        ("CPU of a short request, times the forwarder's", relay.cpu_ms / bare.cpu_ms, SHORT_MAX),
        ("CPU of a short request in ms", relay.cpu_ms, SHORT_MS_MAX),
        ("first byte in ms, after the forwarder's", relay.first_ms - bare.first_ms, FIRST_BYTE_MS_MAX),
        (
            f"p99 of the first byte in ms with {PARALLEL} clients, after the forwarder's",
            relay.p99_ms - bare.p99_ms,
            P99_MS_MAX,
        ),
        ("time of a short request, times the forwarder's", bare.per_s / relay.per_s, SLOWER_MAX),
    )
    for what, found, most in rows:
        print(f"{what}: {found:.2f} (at most {most}){'' if found <= most else ', which is too much'}")
    return all(found <= most for _, found, most in rows)


async def main(given: argparse.Namespace) -> int:
    """Measure each server in turn, round by round; the exit status."""
    rounds: dict[str, list[Measured]] = {}
    async with AsyncExitStack() as stack:
        all_of = await servers(stack, given)
        for server in all_of:  # a first round that doesn't count
            await load(server.url, f"burst {TOKENS}", requests=2 * given.at_once, at_once=given.at_once)
        for _ in range(given.rounds):
            for server in all_of:
                rounds.setdefault(server.name, []).append(await measured(server, at_once=given.at_once))
    for name, found in rounds.items():
        one = best(found)
        print(
            f"{name:10} {one.per_s:7.0f} requests/s of {TOKENS} tokens at {given.at_once} at once, "
            f"{one.cpu_ms:.2f} ms CPU each; {one.token_us:.0f} us CPU for a token of a stream; "
            f"first byte after {one.first_ms:.2f} ms, p99 of {PARALLEL} clients {one.p99_ms:.2f} ms"
        )
    return 0 if judged(best(rounds["relay"]), best(rounds["forwarder"])) else 1


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--requests", type=int, default=1000)
    options.add_argument("--at-once", type=int, default=64)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "holdfast-clients")
    options.add_argument("--without-litellm", action="store_true")
    sys.exit(asyncio.run(main(options.parse_args())))
