"""Kill a real server again and again under a mix of runs, and hold its logs against outside witnesses.

As a command: python bench/faults_server.py --cycles 500 --seed 1
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from holdfast.chaos import ChaosServer
from runner.campaign_checks import Findings, checked
from runner.campaign_model import Model
from runner.campaign_users import Server, User, Witness, everyone, receive_effects
from runner.program import configure, program

USERS = 6
LEAVE_S = 90.0  # how long the runs may take to end once nobody kills the server any more


@dataclass(slots=True)
class Campaign:
    """One data directory, its users and its killer; `faults` counts what was done to the server."""

    folder: Path
    seed: int
    witness: Witness = field(default_factory=Witness)
    faults: Counter[str] = field(default_factory=Counter[str])
    starts_s: list[float] = field(default_factory=list[float])

    @property
    def names(self) -> list[str]:
        """The users' sessions."""
        return [f"u{self.seed}x{nth}" for nth in range(USERS)]

    async def run(self, cycles: int) -> Findings:
        """So many lives of the server, and one more in which everything comes to its end."""
        chance = random.Random(self.seed)
        is_over = asyncio.Event()
        async with (
            receive_effects(self.witness) as port,
            ChaosServer(choose=Model(port)) as chaos,
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30, sock_connect=5)) as http,
        ):
            await asyncio.to_thread(configure, self.folder, chaos.base_url, drain_s=0.5)
            server = Server(http)
            people = [User(name, server, self.witness, seed=self.seed) for name in self.names]
            async with everyone(people, server, self.witness, seed=self.seed, is_over=is_over) as users:
                for cycle in range(cycles):
                    await self._live_and_die(server, chance, is_shown=cycle % 10 == 0)
                is_over.set()
                async with program(self.folder) as last:
                    server.up(last.url)
                    async with asyncio.timeout(LEAVE_S):
                        await asyncio.gather(*users)
                    last.process.send_signal(signal.SIGTERM)
                    await last.ended()
        return await checked(self.folder, self.witness, names=self.names)

    async def _live_and_die(self, server: Server, chance: random.Random, *, is_shown: bool) -> None:
        began_s = time.monotonic()
        how = chance.choices(("kill", "kill while starting", "end"), (8, 1, 1))[0]
        self.faults[how] += 1
        if how == "kill while starting":
            await self._kill_while_starting(chance.random())
            return
        async with program(self.folder) as running:
            self.starts_s.append(time.monotonic() - began_s)
            server.up(running.url)
            await asyncio.sleep(0.05 + 0.9 * chance.random() ** 2)
            running.process.send_signal(signal.SIGKILL if how == "kill" else signal.SIGTERM)
            code, _ = await running.ended()
            server.is_up.clear()
            assert code == (-signal.SIGKILL if how == "kill" else 0), (how, code)
        if is_shown:
            sys.stdout.write(f"\r{self.faults.total()} faults, {len(self.witness.shown)} events shown")
            sys.stdout.flush()

    async def _kill_while_starting(self, after_s: float) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "holdfast", "serve", "--config", str(self.folder / "holdfast.toml")),
            stdout=asyncio.subprocess.DEVNULL,
            cwd=self.folder,
        )
        await asyncio.sleep(after_s)
        process.kill()
        await process.wait()


def told(campaign: Campaign, findings: Findings) -> str:
    """The campaign in a few lines."""
    witness = campaign.witness
    starts_s = sorted(campaign.starts_s) or [0.0]
    lines = [
        f"seed {campaign.seed}: {campaign.faults.total()} faults {dict(campaign.faults)}",
        f"starts: median {starts_s[len(starts_s) // 2]:.2f} s",
        f"inputs accepted: {len(witness.sent)} messages, {len(witness.steered)} steers",
        f"of these runs {len(witness.stopped)} were stopped; {witness.denied} actions were denied",
        f"{len(witness.shown)} events shown, {findings.events} kept",
        f"{findings.runs} runs, resumed {findings.resumed} times: {dict(findings.outcomes)}",
        f"{findings.effects} effects happened, {findings.unknown} were said to be unknown",
        *findings.broken[:20],
        f"{len(findings.broken)} promises broken" if findings.broken else "every promise kept",
    ]
    return "\n".join(lines)


def main() -> None:
    """Campaigns of so many cycles each, until there were enough."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=500)
    parser.add_argument("--cycles-each", type=int, default=50, help="After so many, everything is checked.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="Keep the data directory of what went wrong.")
    options = parser.parse_args()
    done = 0
    while done < options.cycles:
        cycles = min(options.cycles_each, options.cycles - done)
        folder = tempfile.mkdtemp(prefix="holdfast-faults-")
        campaign = Campaign(Path(folder), options.seed + done)
        try:
            findings = asyncio.run(campaign.run(cycles))
        except BaseException:
            sys.stdout.write(f"\nseed {campaign.seed} failed; its data is in {folder}\n")
            raise
        sys.stdout.write("\r" + told(campaign, findings) + "\n")
        if findings.broken:
            sys.stdout.write(f"its data is in {folder}\n")
            sys.exit(1)
        done += cycles


if __name__ == "__main__":
    main()
