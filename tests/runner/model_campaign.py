"""Kill a real server and a real model in any order, and bring them back in any order: every run completes.

As a command: python bench/faults_models.py --cycles 100 --seed 1
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import aiohttp

from models.calls.jumps import campaign as clock_campaign
from ports import reserved_port
from runner.campaign_checks import Findings, checked
from runner.campaign_users import Server, User, Witness, everyone, receive_effects
from runner.program import configure, program

USERS = 4
LEAVE_S = 120.0  # how long the runs may take to end once nobody is killed any more
MODEL_LIVES_S = 1.0  # at least: a call that is cut off again and again has used up its attempts
CYCLES_EACH = 20  # after so many, everything is checked
TESTS = Path(__file__).parents[1]


class Calm(User):
    """Someone who sends messages and lets every run come to its end."""

    kinds = ("text", "tools", "outside", "ask", "slow")
    meddling = ("",)


@asynccontextmanager
async def model_process(port: int, effects_port: int) -> AsyncGenerator[None]:
    """The model, listening; killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "runner.model_process", str(port), str(effects_port)),
        stdout=asyncio.subprocess.PIPE,
        cwd=TESTS,
    )
    assert process.stdout is not None
    try:
        assert b"http://" in await process.stdout.readline()
        yield
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


@dataclass(slots=True)
class ModelCampaign:
    """One data directory with its users; `back_s` is how much later than the server a model may come back."""

    folder: Path
    seed: int
    back_s: float = 8.0
    witness: Witness = field(default_factory=Witness)
    faults: Counter[str] = field(default_factory=Counter[str])

    @property
    def names(self) -> list[str]:
        """The users' sessions."""
        return [f"m{self.seed}x{nth}" for nth in range(USERS)]

    async def run(self, cycles: int) -> Findings:
        """So many times one of them or both die; then everything comes to its end."""
        chance = random.Random(self.seed)
        port = reserved_port()
        is_over = asyncio.Event()
        async with (
            receive_effects(self.witness) as effects_port,
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30, sock_connect=5)) as http,
        ):
            await asyncio.to_thread(configure, self.folder, f"http://127.0.0.1:{port}/v1")
            both = Both(self.folder, (port, effects_port), Server(http))
            people = [Calm(name, both.server, self.witness, seed=self.seed) for name in self.names]
            async with (
                both,
                everyone(people, both.server, self.witness, seed=self.seed, is_over=is_over) as users,
            ):
                for _ in range(cycles):
                    await self._cycle(both, chance)
                is_over.set()
                async with asyncio.timeout(LEAVE_S):
                    await asyncio.gather(*users)
        return await self._checked()

    async def _cycle(self, both: "Both", chance: random.Random) -> None:
        """Let them live, kill one or both, and bring back what died, each after its own time."""
        await asyncio.sleep(MODEL_LIVES_S + 0.5 * chance.random())
        killed = chance.choice((("model",), ("server",), ("model", "server"), ("server", "model")))
        self.faults[" then ".join(killed)] += 1
        for name in killed:
            await both.kill(name)
            await asyncio.sleep(0.3 * chance.random() ** 2)
        returns = {"model": self.back_s * chance.random() ** 2, "server": 0.5 * chance.random()}
        async with asyncio.TaskGroup() as tasks:
            for name in killed:
                tasks.create_task(both.start(name, after_s=returns[name]))

    async def _checked(self) -> Findings:
        findings = await checked(self.folder, self.witness, names=self.names)
        others = {name: count for name, count in findings.outcomes.items() if name != "completed"}
        findings.insist(that=not others, or_else=f"runs did not complete: {others}")
        return findings


class Both:
    """The server and its model, each alive or dead; an async context manager that leaves both dead."""

    def __init__(self, folder: Path, ports: tuple[int, int], server: Server) -> None:
        self.server = server
        self._folder = folder
        self._ports = ports
        self._alive: dict[str, AsyncExitStack] = {}

    async def __aenter__(self) -> Self:
        await self.start("model")
        await self.start("server")
        return self

    async def __aexit__(self, *_: object) -> None:
        for name in list(self._alive):
            await self.kill(name)

    async def start(self, name: str, *, after_s: float = 0.0) -> None:
        """Bring it up."""
        await asyncio.sleep(after_s)
        stack = AsyncExitStack()
        if name == "model":
            await stack.enter_async_context(model_process(*self._ports))
        else:
            self.server.up((await stack.enter_async_context(program(self._folder))).url)
        self._alive[name] = stack

    async def kill(self, name: str) -> None:
        """As a power cut would: leaving either of them sends SIGKILL."""
        if name == "server":
            self.server.is_up.clear()
        await self._alive.pop(name).aclose()


def told(campaign: ModelCampaign, findings: Findings) -> str:
    """The campaign in a few lines."""
    lines = [
        f"seed {campaign.seed}: {campaign.faults.total()} faults {dict(campaign.faults)}",
        f"{findings.runs} runs, resumed {findings.resumed} times: {dict(findings.outcomes)}",
        f"{findings.effects} effects happened, {findings.unknown} were said to be unknown",
        *findings.broken[:20],
        f"{len(findings.broken)} promises broken" if findings.broken else "every promise kept",
    ]
    return "\n".join(lines)


def main() -> None:
    """Campaigns until there were enough cycles; the first broken promise ends them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # calls that are meant to fail
    compared = asyncio.run(clock_campaign(options.seed, max(1, options.cycles // 10)))
    sys.stdout.write(f"{compared} waits compared by a calm and by a wild clock: all alike\n")
    for done in range(0, options.cycles, CYCLES_EACH):
        folder = tempfile.mkdtemp(prefix="holdfast-models-")
        campaign = ModelCampaign(Path(folder), options.seed + done)
        findings = asyncio.run(campaign.run(min(CYCLES_EACH, options.cycles - done)))
        sys.stdout.write(told(campaign, findings) + "\n")
        if findings.broken:
            sys.exit(f"its data is in {folder}")


if __name__ == "__main__":
    main()
