"""What can happen to servers that share a database: each fault is seeded, and heals what it broke."""

import asyncio
import json
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from runner.campaign_users import GONE
from runner.cluster_nodes import Cluster, ClusterNode

LEASE_S = 4.0
STEADY_S = 5.0  # after this long without a fault, every server may take over from a dead one
BUSY_S = 60.0  # the longest until a server has a run under way
Fault = Callable[[ClusterNode], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Death:
    """A server was killed while nothing else was wrong, in the middle of these runs."""

    at_ms: int
    run_ids: tuple[str, ...]


@dataclass(slots=True)
class Faults:
    """Breaks things one after the other, sometimes several at once; `done` counts them."""

    cluster: Cluster
    chance: random.Random
    probe: str  # a session that is renamed to see whether writes work
    done: Counter[str] = field(default_factory=Counter[str])
    deaths: list[Death] = field(default_factory=list[Death])
    writable_after_s: list[float] = field(default_factory=list[float])
    _database: asyncio.Lock = field(default_factory=asyncio.Lock)  # it is restarted once at a time

    async def break_things(self, seconds: float) -> None:
        """Go on for so long."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            await self._one_round()
            await asyncio.sleep(self.chance.uniform(0.2, 2.0))

    async def break_in_turn(self, rounds: Sequence[Sequence[str]]) -> None:
        """The named faults: those of one round at once, each on another server."""
        for names in rounds:
            hit = self.chance.sample(list(self.cluster.nodes), len(names))
            await asyncio.gather(*[self.run(name, one) for name, one in zip(names, hit, strict=True)])
            await asyncio.sleep(self.chance.uniform(0.2, 1.0))

    async def run(self, name: str, node: ClusterNode) -> None:
        """One fault by its name."""
        self.done[name] += 1
        fault: Fault = getattr(self, name)
        await fault(node)

    async def _one_round(self) -> None:
        node, *others = self.chance.sample(list(self.cluster.nodes), len(self.cluster.nodes))
        kind = self.chance.choices(
            ("one", "several", "watched kill", "database", "rolling"), (8, 8, 4, 3, 1)
        )[0]
        match kind:
            case "one":
                await self.run(self.chance.choice(ON_A_NODE), node)
            case "several":
                hit = [node, *others][: self.chance.choice((2, 2, 3))]
                names = self.chance.choices([*ON_A_NODE, "restart_database"], k=len(hit))
                await asyncio.gather(*[self.run(name, one) for name, one in zip(names, hit, strict=True)])
            case "watched kill":
                await asyncio.sleep(STEADY_S)
                await self.run("watched_kill", node)
            case "database":
                for one in self.cluster.nodes:
                    await one.until_up()
                await self.run("restart_database", node)
                await self._until_writable()
            case _:
                for one in self.cluster.nodes:
                    await self.run("drain", one)
                    await one.until_up()

    def _some_s(self, least: float, most: float) -> float:
        return self.chance.uniform(least, most)

    async def kill(self, node: ClusterNode) -> None:
        """Kill -9, and another life at once or after the others have taken over."""
        await node.kill()
        await asyncio.sleep(self.chance.choice((0.0, 0.5, LEASE_S + 2)))
        await node.start()

    async def kill_in_mid_run(self, node: ClusterNode) -> None:
        """Kill -9 in the middle of runs, and another life at once; again if people stopped all those runs."""
        is_one_resumed = False
        while not is_one_resumed:
            run_ids = await self._frozen_in_mid_run(node)
            await node.kill()
            await node.start()
            is_one_resumed = await self._is_one_resumed(run_ids)

    async def _frozen_in_mid_run(self, node: ClusterNode) -> tuple[str, ...]:
        """Stop the server while it has runs under way, so that none ends before it's killed.

        A look takes a second on a busy machine, so it works on until it has some.
        """
        async with asyncio.timeout(BUSY_S):
            while True:
                if await asyncio.to_thread(self._owned_by, node):
                    node.signal(signal.SIGSTOP)
                    if run_ids := await asyncio.to_thread(self._owned_by, node):
                        return run_ids
                    node.signal(signal.SIGCONT)
                await asyncio.sleep(0.1)

    async def _is_one_resumed(self, run_ids: Sequence[str]) -> bool:
        """Wait until one of these runs is resumed, or none is left to be."""
        names = ", ".join(f"'{run_id}'" for run_id in run_ids)
        look = (
            "SELECT bool_and(status = 'ended'), bool_or(EXISTS ("  # noqa: S608  # the ids are our own
            "SELECT FROM events WHERE session = runs.session AND seq > first_seq "
            "AND position('run.resumed'::bytea IN body) > 0)) "
            f"FROM runs WHERE run_id IN ({names})"
        )
        while True:
            seen = await asyncio.to_thread(self.cluster.postgres.sql, look, dsn=self.cluster.dsn)
            if seen != "f|f":
                return seen.endswith("t")
            await asyncio.sleep(0.1)

    async def watched_kill(self, node: ClusterNode) -> None:
        """Kill -9 while all is well; the others have to take over."""
        run_ids = await asyncio.to_thread(self._owned_by, node)
        at_ms = time.time_ns() // 1_000_000
        await node.kill()
        self.deaths.append(Death(at_ms, run_ids))
        await asyncio.sleep(LEASE_S + 3)
        await node.start()

    def _owned_by(self, node: ClusterNode) -> tuple[str, ...]:
        found = self.cluster.postgres.sql(
            "SELECT name, run_id FROM runs JOIN sessions ON runs.session = sessions.key "
            "JOIN nodes ON incarnation = owner WHERE status = 'running'",
            dsn=self.cluster.dsn,
        )
        rows = [line.split("|") for line in found.splitlines()]
        return tuple(run_id for name, run_id in rows if name == node.name)

    async def freeze(self, node: ClusterNode) -> None:
        """The process stands still for longer than its lease, and wakes up."""
        node.signal(signal.SIGSTOP)
        await asyncio.sleep(self._some_s(LEASE_S, LEASE_S + 5))
        node.signal(signal.SIGCONT)

    async def freeze_shortly(self, node: ClusterNode) -> None:
        """The process stands still, and wakes up about when its lease ends."""
        node.signal(signal.SIGSTOP)
        await asyncio.sleep(self._some_s(0.5, LEASE_S + 0.5))
        node.signal(signal.SIGCONT)

    async def kill_frozen(self, node: ClusterNode) -> None:
        """A process that stands still and never wakes up."""
        node.signal(signal.SIGSTOP)
        await asyncio.sleep(self._some_s(0.5, LEASE_S + 3))
        await self.kill(node)

    async def drain(self, node: ClusterNode) -> None:
        """SIGTERM, and another life."""
        await node.shut_down()
        await node.start()

    async def black_hole(self, node: ClusterNode) -> None:
        """Nothing arrives in either direction, and then all of it does."""
        node.proxy.black_hole()
        await asyncio.sleep(self._some_s(0.5, 10))
        node.proxy.heal()

    async def one_way_cut(self, node: ClusterNode) -> None:
        """Nothing arrives in one direction, and then all of it does."""
        node.proxy.black_hole(self.chance.choice(("to_server", "to_client")))
        await asyncio.sleep(self._some_s(0.5, 10))
        node.proxy.heal()

    async def late_statements(self, node: ClusterNode) -> None:
        """The server connects anew while what it sent before is still on its way."""
        node.proxy.black_hole("to_server")
        await asyncio.sleep(self._some_s(0.1, 1))
        node.proxy.strand()
        await asyncio.sleep(self._some_s(0.1, 3))
        node.proxy.heal()

    async def cut_replies(self, node: ClusterNode) -> None:
        """Some statements arrive, but not their replies."""
        node.proxy.cut_reply(times=self.chance.randint(1, 6))
        await asyncio.sleep(self._some_s(0.2, 1.5))
        node.proxy.heal()

    async def cut_appends(self, node: ClusterNode) -> None:
        """Some appends arrive, but not their replies."""
        node.proxy.cut_reply(
            times=self.chance.randint(1, 3), after=lambda data: b"text.delta" in data or b"at_ms" in data
        )
        await asyncio.sleep(self._some_s(0.5, 2))
        node.proxy.heal()

    async def cut_off(self, node: ClusterNode) -> None:
        """All connections are reset, and new ones refused for a while."""
        node.proxy.cut()
        await asyncio.sleep(self._some_s(0.0, 8))
        node.proxy.heal()

    async def slow_down(self, node: ClusterNode) -> None:
        """Every message takes a while."""
        node.proxy.delay_s = self._some_s(0.02, 0.4)
        await asyncio.sleep(self._some_s(1, 6))
        node.proxy.heal()

    async def restart_database(self, _: ClusterNode) -> None:
        """The database crashes and recovers, for all servers."""
        postgres = self.cluster.postgres
        async with self._database:
            await asyncio.to_thread(postgres.stop, "immediate")
            await asyncio.sleep(self.chance.choice((0.0, 0.0, 2.0, LEASE_S + 2)))
            await asyncio.to_thread(postgres.start)

    async def _until_writable(self) -> None:
        """Measure how long each server takes to accept writes again."""
        began_s = time.monotonic()
        for took_s in await asyncio.gather(*[self._writable(node, began_s) for node in self.cluster.nodes]):
            if took_s >= 0:
                self.writable_after_s.append(took_s)

    async def _writable(self, node: ClusterNode, began_s: float) -> float:
        path = f"{node.url}/api/sessions/{self.probe}"
        while time.monotonic() - began_s < 30:
            try:
                async with node.http.patch(path, data=json.dumps({"title": str(began_s)})) as answer:
                    if answer.status == 200:
                        return time.monotonic() - began_s
            except GONE:
                pass
            await asyncio.sleep(0.02)
        node.broken.append(f"{node.name} accepted no write for 30 s after the database was back")
        return -1


ON_A_NODE: Sequence[str] = (
    "kill",
    "kill",
    "freeze",
    "freeze_shortly",
    "kill_frozen",
    "drain",
    "black_hole",
    "one_way_cut",
    "late_statements",
    "cut_replies",
    "cut_appends",
    "cut_off",
    "slow_down",
)
