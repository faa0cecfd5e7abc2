"""Another commit beside this checkout: python bench/side_by_side.py COMMIT [--rounds 5] [--only serve,start].

The commit is checked out into a temporary worktree with an environment of its own (`scripts/setup run`).
Both servers run at the same time, but only one of them works at a time: they take turns in every round, and
the one that was second is first in the next. Each line has the median of both, and the median and the range
of all rounds' ratios, this checkout's figure divided by the commit's. A range that includes 1.00 shows no
difference. The relay is left out if the commit doesn't relay.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import uvloop

from load import CHAT_BODY, CHAT_PATH, WHATS, Server, Way, at_once, holdfast, script
from start import answering, ended, own_home

ROOT = Path(__file__).parents[1]
ALL = "serve,start"
CROWD = 64
RUNS_ALONE = 40
RUNS_BEFORE_MEMORY = 100
PROVIDER_ID = b'"chatcmpl-1"'  # of the fake model's answers; only a relay passes it on


@dataclass(frozen=True)
class Side:
    """One of the two programs, and what was measured of it: one value of each figure in a round."""

    name: str
    python: str
    figures: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list[float]))


@dataclass(frozen=True)
class Work:
    """Streams that a number of clients ask for."""

    name: str
    target: str
    streams: int
    clients: int


WORKS = (
    Work(f"burst of {CROWD}", "burst", CROWD * 4, CROWD),
    Work("alone", "burst", RUNS_ALONE, 1),
    Work(f"paced at {CROWD}", "paced", CROWD * 2, CROWD),
)


@contextmanager
def checked_out(commit: str) -> Generator[Path]:
    """A worktree of the commit, ready to serve."""
    with tempfile.TemporaryDirectory(prefix="holdfast-beside-") as folder:
        tree = Path(folder) / "tree"
        subprocess.run(
            ["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", tree, commit], check=True
        )
        try:
            subprocess.run([tree / "scripts" / "setup", "run"], check=True)
            yield tree
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True)


def short_name(commit: str) -> str:
    """The commit's abbreviated hash."""
    command = ["git", "-C", ROOT, "rev-parse", "--short", commit]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


async def work(side: Side, way: Way, what: Work) -> None:
    """Add the figures of one piece of work."""
    load, cpu_s, wall_s = await at_once(
        way, WHATS[what.target], target=what.target, streams=what.streams, clients=what.clients
    )
    if load.lost:
        raise SystemExit(f"{side.name}: {load.lost} of {what.streams} answers weren't whole ({what.name})")
    name = what.name if way.route == "runs" else f"{way.name}, {what.name}"
    side.figures[f"{name}: runs/s"].append(what.streams / wall_s)
    side.figures[f"{name}: POST to first token, ms"].append(statistics.median(load.first_ms))
    side.figures[f"{name}: CPU of a run, ms"].append(1000 * cpu_s / what.streams)
    side.figures[f"{name}: CPU of a token, µs"].append(1e6 * cpu_s / load.tokens)


async def relays(server: Server) -> bool:
    """Whether POST /v1/chat/completions passes requests on; older commits answer them by the agent."""
    async with (
        aiohttp.ClientSession() as http,
        http.post(server.url + CHAT_PATH, data=CHAT_BODY % b"burst") as answer,
    ):
        return PROVIDER_ID in await answer.read()


async def received_bytes(model: Server) -> int:
    """The size of the latest request to the model."""
    async with aiohttp.ClientSession() as http, http.get(f"{model.url}/received") as answer:
        return int(await answer.read())


async def healthy(server: Server) -> None:
    """Return once the server answers."""
    async with aiohttp.ClientSession() as http, http.get(f"{server.url}/health") as answer:
        assert answer.status == 200, await answer.text()


async def served(sides: list[Side], folder: Path, *, rounds: int) -> None:
    """The figures of two servers that are up."""
    with ExitStack() as stack:
        model = stack.enter_context(script("fake_model.py"))
        servers: dict[str, Server] = {}
        for side in sides:
            own = folder / side.name
            own.mkdir()
            servers[side.name] = server = stack.enter_context(
                holdfast(own, model.url, WHATS, python=side.python)
            )
            await healthy(server)
            side.figures["memory after start, MiB"].append(server.rss_bytes() / 2**20)
            way = Way("runs", server, "runs")
            await at_once(
                way,
                WHATS["burst"],
                target="burst",
                streams=RUNS_BEFORE_MEMORY,
                clients=RUNS_BEFORE_MEMORY // 10,
            )
            side.figures[f"memory after {RUNS_BEFORE_MEMORY} runs, MiB"].append(server.rss_bytes() / 2**20)
            side.figures["request to the model, bytes"].append(await received_bytes(model))
        both_relay = all([await relays(server) for server in servers.values()])
        for nth in range(rounds):
            for what in WORKS:
                for side in in_turn(sides, nth):
                    await work(side, Way("runs", servers[side.name], "runs"), what)
            for side in in_turn(sides, nth) if both_relay else ():
                await work(side, Way("relay", servers[side.name], "relay"), WORKS[0])


def started(sides: list[Side], *, rounds: int) -> None:
    """The figures of a start; the first of each kind compiles modules, and isn't counted."""
    with ExitStack() as stack:
        # A home each: an older program can't read the store of a newer one.
        homes = {side.name: stack.enter_context(own_home()) for side in sides}
        for nth in range(rounds + 1):
            for side in in_turn(sides, nth):
                program, home = [side.python, "-m", "holdfast"], homes[side.name]
                serve = answering([*program, "serve", "--port", "0"], home)
                run = ended([*program, "run", "hi"], home)
                if nth:
                    side.figures["start to /health, s"].append(serve.clock_s)
                    side.figures["start to /health, CPU s"].append(serve.cpu_s)
                    side.figures["holdfast run hi, s"].append(run.clock_s)
                    side.figures["holdfast run hi, CPU s"].append(run.cpu_s)


def in_turn(sides: list[Side], nth: int) -> list[Side]:
    """The sides in the order of a round."""
    return sides if nth % 2 else sides[::-1]


def print_figures(other: Side, here: Side) -> None:
    """All figures, and the ratios of this checkout to the other."""
    print(f"{'':44} {other.name[:12]:>12} {'here':>10} {'ratio':>7}   least to most")
    for name, values in here.figures.items():
        others = other.figures[name]
        ratios = sorted(mine / theirs for mine, theirs in zip(values, others, strict=True))
        print(
            f"{name:44} {statistics.median(others):12,.2f} {statistics.median(values):10,.2f}"
            f" {statistics.median(ratios):7.2f}   {ratios[0]:.2f} to {ratios[-1]:.2f}"
        )


def main() -> None:
    """Measure both and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("commit")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--only", default=ALL)
    given = options.parse_args()
    only = set(given.only.split(","))
    with checked_out(given.commit) as tree, tempfile.TemporaryDirectory() as folder:
        for each in (tree, ROOT):  # a program that compiles its own modules is slower, and larger
            subprocess.run([sys.executable, "-m", "compileall", "-q", each / "src"], check=True)
        sides = [
            Side(short_name(given.commit), str(tree / ".venv" / "bin" / "python")),
            Side("here", sys.executable),
        ]
        if "start" in only:
            started(sides, rounds=given.rounds)
        if "serve" in only:
            uvloop.run(served(sides, Path(folder), rounds=given.rounds))
        print_figures(*sides)


if __name__ == "__main__":
    main()
