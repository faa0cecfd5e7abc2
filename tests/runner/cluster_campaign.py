"""Break servers that share a database under a mix of runs, and hold their logs against outside witnesses.

As a command: python bench/faults_cluster.py --seconds 600 --seed 1
"""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from pathlib import Path

import aiohttp

from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.interfaces.journal import Record
from runner.campaign_checks import Findings, check
from runner.campaign_model import KINDS, LONG, Model
from runner.campaign_users import User, Witness, everyone, read_session, receive_effects
from runner.cluster_checks import check_stops, check_texts
from runner.cluster_faults import Faults
from runner.cluster_nodes import Cluster, cluster
from stores import PostgresStore

NODES = 3
USERS = 6
LEAVE_S = 120.0  # how long the runs may take to end once nothing breaks any more
REQUEST_S = 12.0  # a server may be frozen, so a user asks another one after this long


class ClusterUser(User):
    """Someone whose answers sometimes take long enough for a server to die of old age meanwhile."""

    kinds = (*KINDS, *LONG, *LONG)


@dataclass(slots=True)
class ClusterCampaign:
    """One database, its servers, users and faults."""

    folder: Path
    seed: int
    users: int = USERS
    witness: Witness = field(default_factory=Witness)
    faults: Faults | None = None
    take_overs_s: list[float] = field(default_factory=list[float])
    unresumed: int = 0

    @property
    def names(self) -> list[str]:
        """The users' sessions."""
        return [f"u{self.seed}x{nth}" for nth in range(self.users)]

    async def run(self, break_things: Callable[[Faults], Coroutine[None, None, None]]) -> Findings:
        """Break things, then let everything come to its end."""
        timeout = aiohttp.ClientTimeout(total=REQUEST_S, sock_connect=3)
        async with (
            receive_effects(self.witness) as port,
            ChaosServer(choose=Model(port)) as chaos,
            aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as http,
            cluster(self.folder, chaos.base_url, http, nodes=NODES, seed=self.seed) as servers,
        ):
            await self._use_and_break(servers, break_things)
            for node in servers.nodes:
                await node.shut_down()
            findings = await self._checked(servers)
            findings.broken += servers.broken
            return findings

    async def _use_and_break(
        self, servers: Cluster, break_things: Callable[[Faults], Coroutine[None, None, None]]
    ) -> None:
        is_over = asyncio.Event()
        people = [ClusterUser(name, servers, self.witness, seed=self.seed) for name in self.names]
        self.faults = Faults(servers, random.Random(f"{self.seed} faults"), probe=self.names[0])
        second_readers = [
            asyncio.create_task(read_session(servers, name, self.witness)) for name in self.names
        ]
        try:
            async with everyone(people, servers, self.witness, seed=self.seed, is_over=is_over) as users:
                progress = asyncio.create_task(self._tell(servers))
                await self._until_first_failure(break_things(self.faults), [*users, *second_readers])
                progress.cancel()
                is_over.set()
                for node in servers.nodes:
                    await node.until_up()
                async with asyncio.timeout(LEAVE_S):
                    await asyncio.gather(*users)
        finally:
            for reader in second_readers:
                reader.cancel()
            await asyncio.wait(second_readers)
        for reader in second_readers:
            if not reader.cancelled():
                reader.result()

    @staticmethod
    async def _until_first_failure(
        breaking: Coroutine[None, None, None], users: Sequence[asyncio.Task[None]]
    ) -> None:
        """Break things, but no longer than until somebody saw something wrong."""
        work = asyncio.create_task(breaking)

        def look(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                work.cancel()

        for user in users:
            user.add_done_callback(look)
        try:
            await work
        except asyncio.CancelledError:
            for user in users:
                if user.done():
                    user.result()
            raise

    async def _tell(self, servers: Cluster) -> None:
        while True:
            await asyncio.sleep(10)
            assert self.faults is not None
            sys.stdout.write(
                f"\r{time.strftime('%H:%M:%S')} {self.faults.done.total()} faults, "
                f"{len(self.witness.shown)} events shown, {len(self.witness.sent)} messages "
                f"{servers.broken[-1:] or ''}\n"
            )
            sys.stdout.flush()

    async def _checked(self, servers: Cluster) -> Findings:
        store = await PostgresStore.open(servers.dsn, name="checker")
        try:
            findings = await check(
                store, self.witness, names=self.names, effects_file=self.folder / "work" / "effects"
            )
            for name in self.names:
                records: list[Record] = []
                while more := await store.read(name, after=len(records)):
                    records.extend(more)
                check_texts(findings, name, records)
                check_stops(findings, self.witness, name, records)
                self._measure(records)
            return findings
        finally:
            await store.close()

    def _measure(self, records: Sequence[Record]) -> None:
        """How long after each watched death its runs went on elsewhere."""
        assert self.faults is not None
        for death in self.faults.deaths:
            for record in records:
                event = record.event
                if getattr(event, "run_id", "") not in death.run_ids or event.at_ms <= death.at_ms:
                    continue
                if isinstance(event, e.RunResumed):
                    self.take_overs_s.append((event.at_ms - death.at_ms) / 1000)
                    break
                if isinstance(event, e.RunEnded):
                    self.unresumed += 1
                    break


def _times(name: str, values: Sequence[float]) -> str:
    if not values:
        return f"{name}: not measured"
    return f"{name}: median {statistics.median(values):.2f} s, worst {max(values):.2f} s of {len(values)}"


def told(campaign: ClusterCampaign, findings: Findings) -> str:
    """The campaign in a few lines."""
    witness, faults = campaign.witness, campaign.faults
    assert faults is not None
    dying = sum(len(death.run_ids) for death in faults.deaths)
    lines = [
        f"seed {campaign.seed}: {faults.done.total()} faults {dict(faults.done)}",
        _times("dead owner to run.resumed", campaign.take_overs_s),
        f"{len(faults.deaths)} deaths were watched, in the middle of {dying} runs",
        _times("database back to a write accepted", faults.writable_after_s),
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
    """One campaign, or several with one seed after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument(
        "--seconds-each", type=float, default=120.0, help="After so many, everything is checked."
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--users", type=int, default=USERS)
    options = parser.parse_args()
    done_s, seed = 0.0, options.seed
    while done_s < options.seconds:
        seconds = min(options.seconds_each, options.seconds - done_s)
        folder = tempfile.mkdtemp(prefix="holdfast-faults-")
        campaign = ClusterCampaign(Path(folder), seed, options.users)
        try:
            findings = asyncio.run(campaign.run(methodcaller("break_things", seconds)))
        except BaseException:
            sys.stdout.write(f"\nseed {campaign.seed} failed; its data is in {folder}\n")
            raise
        sys.stdout.write(told(campaign, findings) + "\n")
        if findings.broken:
            sys.stdout.write(f"its data is in {folder}\n")
            sys.exit(1)
        done_s, seed = done_s + seconds, seed + 1


if __name__ == "__main__":
    main()
