"""Several nodes on one disk in memory, which can die and freeze, for tests of what acts on logs."""

import asyncio
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from typing_extensions import override

from holdfast import events as e
from holdfast.agent.calls import LEASE_S_MIN
from holdfast.folds.rows import home_after
from holdfast.interfaces.journal import (
    Fence,
    FenceLost,
    HomedElsewhere,
    OwnedElsewhere,
    Record,
    StoreUnreachable,
)
from holdfast.interfaces.nodes import Node, OwnershipChange, SessionPlace
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.values import LogEnd
from stores import MemoryStore


@dataclass
class Cluster:
    """The disk, the nodes that live, and who owns which session."""

    disk: MemoryDisk = field(default_factory=MemoryDisk)
    alive: "list[NodeStore]" = field(default_factory=list["NodeStore"])
    owners: "dict[str, tuple[NodeStore, int]]" = field(default_factory=dict[str, "tuple[NodeStore, int]"])

    def join(self, name: str, *volumes: str) -> "NodeStore":
        """A node that begins to work on the disk, with these volumes."""
        node = NodeStore(self, name, (f"node:{name}", *(f"volume:{volume}" for volume in volumes)))
        self.alive.append(node)
        return node

    def bury(self, node: "NodeStore") -> None:
        """Take everything from a node that is taken for dead; it learns of that when it wakes."""
        self.alive.remove(node)
        for other in self.alive:
            other.say("claimable")
        node.say("lost")


class NodeStore(MemoryStore):
    """A store that owns only what it claimed."""

    def __init__(self, cluster: Cluster, name: str, homes: tuple[str, ...]) -> None:
        super().__init__(cluster.disk)
        self._cluster = cluster
        self._name = name
        self._homes = homes
        self.lease_left_s = math.inf
        self.looks = asyncio.Semaphore(0)  # counts the looks at this node while its lease is short
        self.url = ""
        self.offers: tuple[str, ...] = ()
        self.claimed: list[str] = []
        self.loses_releases = False  # the store is away whenever a session is released
        self._incarnation = cluster.disk.fence

    def say(self, change: OwnershipChange) -> None:
        self._ownership.tell(change)

    @property
    @override
    def node(self) -> Node:
        if self.lease_left_s < LEASE_S_MIN:
            self.looks.release()
        return Node(
            name=self._name,
            url=self.url,
            incarnation=self._incarnation,
            lease_left_s=self.lease_left_s,
            homes=self._homes,
            offers=self.offers,
        )

    @override
    async def nodes(self) -> Sequence[Node]:
        return [node.node for node in self._cluster.alive]

    @override
    async def place(self, session_id: str) -> SessionPlace:
        home = self.home(session_id)
        owner = self._cluster.owners[session_id][0] if self._is_owned(session_id) else None
        is_away = bool(home) and not any(home in one.node.homes for one in self._cluster.alive)
        if owner is None:
            return SessionPlace(home=home, is_away=is_away)
        return SessionPlace(owner=owner.node.name, url=owner.node.url, home=home, is_away=is_away)

    @override
    async def claim(self, session_id: str, *, to_settle: bool = False) -> Fence:
        cluster = self._cluster
        if self not in cluster.alive:
            raise FenceLost(f"{self._name} is taken for dead")
        if not to_settle and not self._reaches(home := self.home(session_id)):
            raise HomedElsewhere(home)
        owner, number = cluster.owners.get(session_id, (self, 0))
        if owner in cluster.alive and owner is not self:
            raise OwnedElsewhere(owner.node.name, owner.node.url)
        if owner is self and number:
            return Fence(number)
        cluster.disk.fence += 1
        self.claimed.append(session_id)
        cluster.owners[session_id] = (self, cluster.disk.fence)
        return Fence(cluster.disk.fence, crashed=owner is not self)

    @override
    async def purge(
        self, session_id: str, *, only: LogEnd | None = None, then: Callable[[], None] | None = None
    ) -> bool:
        is_gone = await super().purge(session_id, only=only, then=then)
        for other in self._cluster.alive if is_gone else ():
            if other is not self:
                other._tails.end(session_id)  # noqa: SLF001  # of the same class
        return is_gone

    @override
    async def release(self, session_id: str, fence: Fence) -> None:
        if self.loses_releases:
            raise StoreUnreachable("the store is away")
        if self._cluster.owners.get(session_id) == (self, fence.number):
            del self._cluster.owners[session_id]

    @override
    async def claimable(self, *, limit: int = 100, busy: Collection[str] | None = None) -> Sequence[str]:
        found = await super().claimable(limit=1000)
        mine = [id_ for id_ in found if busy is not None and id_ not in busy and self._owns(id_)]
        return [*mine, *(session_id for session_id in found if self._may_claim(session_id))][:limit]

    def _owns(self, session_id: str) -> bool:
        return self in self._cluster.alive and self._cluster.owners.get(session_id, (None, 0))[0] is self

    def _may_claim(self, session_id: str) -> bool:
        runs = [run for run in self._cluster.disk.runs.values() if run.session_id == session_id]
        is_stopping = any(run.status == "stopping" for run in runs)
        if self not in self._cluster.alive or self._is_owned(session_id):
            return False
        return is_stopping or self._reaches(self.home(session_id))

    def home(self, session_id: str) -> str:
        records = self._cluster.disk.records(session_id, after=0, limit=10_000)
        homes = [home for record in records if (home := home_after(record.event)) is not None]
        return homes[-1] if homes else ""

    def _reaches(self, home: str) -> bool:
        return not home or home in self._homes

    def _is_owned(self, session_id: str) -> bool:
        return (
            session_id in self._cluster.owners and self._cluster.owners[session_id][0] in self._cluster.alive
        )

    @override
    def _insist_on(self, session_id: str, fence: Fence) -> None:
        if self not in self._cluster.alive or self._cluster.owners.get(session_id) != (self, fence.number):
            raise FenceLost(f"{self._name} no longer owns session {session_id}")

    @override
    def _publish(self, session_id: str, records: Sequence[Record]) -> None:
        for node in {*self._cluster.alive, self}:
            node._tails.publish(session_id, records)  # noqa: SLF001  # of the same class


class AwayStore(NodeStore):
    """The node b; the sessions' files are on the node a, which died unless `is_away` says otherwise."""

    is_away = True

    @override
    async def place(self, session_id: str) -> SessionPlace:
        home = self.home(session_id)
        if home and not self.is_away:
            return SessionPlace(owner="a", home=home)
        return SessionPlace(home=home, is_away=bool(home), away_since_ms=1_700_000_000_000)


async def homed_elsewhere(session_id: str, *, tool: str = "shell", home: str = "node:a") -> AwayStore:
    """A node that holds a session whose run r1 was in the middle of a tool call on another one."""
    store = AwayStore(cluster := Cluster(), "b", ("node:b",))
    cluster.alive.append(store)
    begun = [
        e.SessionCreated(at_ms=1, epoch="e"),
        e.MessageAccepted(at_ms=1, message_id="m1", text="hi"),
        e.RunQueued(at_ms=1, run_id="r1", message_id="m1"),
    ]
    await store.append(session_id, begun)
    fence = await store.claim(session_id)
    worked = [
        e.MessageDispatched(at_ms=1, run_id="r1", message_id="m1"),
        e.RunStarted(at_ms=1, run_id="r1"),
        e.CallStarted(at_ms=1, run_id="r1", call_id="c1", turn=1),
        e.AttemptStarted(at_ms=1, run_id="r1", call_id="c1", attempt_id="a1", target="main"),
        e.ToolAsked(at_ms=1, run_id="r1", tool_call_id="t1", name=tool, args={}),
        e.CallEnded(at_ms=1, run_id="r1", call_id="c1", finish="tools"),
        e.ToolStarted(at_ms=1, run_id="r1", tool_call_id="t1", effect_key="k", home=home),
    ]
    await store.append_run(session_id, worked, fence=fence)
    await store.release(session_id, fence)
    return store
