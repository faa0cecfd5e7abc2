"""This process as a node: its row in the database, its lease, and what it does about nodes that died."""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from holdfast.features.postgres.clock import ClockSamples
from holdfast.features.postgres.connection import CONFLICTS, Connection, Database, is_lost, named
from holdfast.features.postgres.event_types import EventTypes
from holdfast.features.postgres.queries import queries
from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.interfaces.journal import JournalError, NodeNameTaken
from holdfast.interfaces.nodes import Node, OwnershipChange
from holdfast.interfaces.system_clock import steady_s

_log = logging.getLogger(__name__)


class NodeRowGone(Exception):
    """The node's row is not there any more, so it has to register again."""


def _no_one(_sent_s: float) -> None:
    """Nobody wants to know when the lease was renewed."""


class NodeEntry(Struct, frozen=True, kw_only=True):
    """What a process says about itself when it joins.

    `identity` names its machine and its data directory, which one process at a time can use; empty if it has
    none. `renewed` is told, on the clock `steady_s`, when a request was sent that has renewed the lease.
    """

    url: str = ""
    homes: tuple[str, ...] = ()
    identity: str = ""
    offers: tuple[str, ...] = ()
    renewed: Callable[[float], None] = _no_one


class Membership:
    """The node's row. Only the writer calls its methods, so appends and registrations never overlap."""

    def __init__(
        self,
        database: Database,
        *,
        name: str,
        entry: NodeEntry,
        types: EventTypes,
        tuning: PostgresTuning,
    ) -> None:
        self._database = database
        self._types = types
        self._entry = entry
        self._tuning = tuning
        self.name = name
        self.incarnation = 0
        self.writer = 0
        self.is_lost = False  # the row is gone, so another node may own our sessions
        self.lease_until_s = 0.0  # on the clock `steady_s`

    @property
    def homes(self) -> tuple[str, ...]:
        """The homes of sessions that this node can continue."""
        return self._entry.homes

    @property
    def node(self) -> Node:
        """This process as others see it."""
        left_s = max(self.lease_until_s - steady_s(), 0.0)
        entry = self._entry
        return Node(self.name, entry.url, self.incarnation, left_s, entry.homes, offers=entry.offers)

    async def join(self, connection: Connection) -> bool:
        """Own the row on a new connection; False if this is not the incarnation that it was before.

        Afterwards no statement of an earlier connection is in flight any more. Raises NodeNameTaken.
        """
        if self.incarnation and not self.is_lost:
            writer: int | None = await connection.value(
                "raise_writer", incarnation=self.incarnation, name=self.name
            )
            if writer is not None:
                self.writer = writer
                return True
        if not self.incarnation:
            await self._await_name(connection)
        sent_s = steady_s()
        entry = self._entry
        try:
            incarnation: int = await connection.value(
                "register",
                name=self.name,
                url=entry.url,
                homes=list(entry.homes),
                identity=entry.identity,
                offers=list(entry.offers),
                reads=sorted(self._types.reads),
                lease_s=self._tuning.lease_s,
            )
        except CONFLICTS as error:
            raise await self._taken(connection) from error
        self.incarnation, self.writer, self.is_lost = incarnation, 1, False
        self.renewed(sent_s)
        return False

    async def _await_name(self, connection: Connection) -> None:
        """Return when nobody uses the name; raises NodeNameTaken if somebody who lives does.

        An earlier process of the same data directory is dead, because it would still have the lock. Any other
        is dead if it doesn't renew its lease while we watch for a whole one.
        """
        first: Any = None
        until_s = steady_s() + self._tuning.lease_s
        while rows := await connection.rows("node_named", name=self.name):
            found = rows[0]
            first = first or found
            if found["expires_at"] != first["expires_at"] or found["incarnation"] != first["incarnation"]:
                raise await self._taken(connection)
            if found["identity"] and found["identity"] == self._entry.identity:
                await self._end(found, "replaced")
            elif found["is_expired"] and steady_s() >= until_s:
                await self._end(found, "expired")
            else:
                if found is first:
                    _log.info("waiting to see whether another server with the name %s lives", self.name)
                await asyncio.sleep(self._tuning.beat_s / 4)

    async def _end(self, found: Any, ended: str) -> None:
        await end_node(self._database, found["incarnation"], ended=ended, lock_s=self._tuning.lock_s)

    async def _taken(self, connection: Connection) -> NodeNameTaken:
        rows = await connection.rows("node_named", name=self.name)
        where = f" at {rows[0]['url']}" if rows and rows[0]["url"] else ""
        return NodeNameTaken(
            f"another server with the name {self.name!r} is running{where} and uses the same database: "
            "give each server its own server.node_name, or stop the other one"
        )

    def renewed(self, sent_s: float) -> None:
        """Note that the lease was renewed by a request that was sent then."""
        self.lease_until_s = sent_s + self._tuning.lease_s
        self._entry.renewed(sent_s)

    async def leave(self, connection: Connection) -> None:
        """Remove the row, so that others can claim our sessions at once."""
        if self.incarnation and not self.is_lost:
            bindings = {"incarnation": self.incarnation, "ended": "closed"}
            await connection.execute(queries()["end_node"], bindings)
        self.lease_until_s = 0.0


async def end_node(database: Database, incarnation: int, *, ended: str, lock_s: float) -> bool:
    """Remove a node's row; whatever statement it has in flight is finished or ended first."""
    connection = await database.connect("take-over")
    pid = connection.pid or await _pin(connection)
    ending = asyncio.ensure_future(
        connection.execute(queries()["end_node"], {"incarnation": incarnation, "ended": ended})
    )
    try:
        while not (await asyncio.wait([ending], timeout=lock_s))[0]:
            helper = await database.connect("take-over")
            try:
                # They may have waited in turn, as a beat of the node does for its last statement.
                await helper.rows("terminate_blockers", pid=pid)
            finally:
                helper.terminate()
        is_ended = bool(await ending)
        if not connection.pid:
            await connection.run("COMMIT")
        return is_ended
    finally:
        connection.terminate()
        await asyncio.wait([ending])


async def _pin(connection: Connection) -> int:
    """Begin a transaction, for which a pooler keeps to one server process; return its number."""
    await connection.run("BEGIN")
    ((pid,),) = await connection.fetch("SELECT pg_backend_pid()")
    return pid


class Lease:
    """Renews the lease, and takes over from nodes whose own has run out.

    A node is dead if its lease has run out while this one was renewed without a pause for a whole lease. So
    nobody is taken for dead because the database was away.
    """

    def __init__(
        self,
        database: Database,
        membership: Membership,
        *,
        tuning: PostgresTuning,
        changed: Callable[[OwnershipChange], None],
        lost: Callable[[], None],
        channel: Callable[[], str],
    ) -> None:
        self._database = database
        self._membership = membership
        self._tuning = tuning
        self._changed = changed
        self._lost = lost
        self._channel = channel
        self._connection: Connection | None = None
        self._steady_since_s = math.inf
        self._last_s = 0.0
        self._others: set[int] = set()
        self.clock = ClockSamples()

    async def run(self) -> None:
        """Renew until cancelled."""
        try:
            while True:
                pause_s = await self._beat()
                if self._connection is None:
                    await self._database.pause(pause_s)
                else:
                    await asyncio.sleep(pause_s)
        finally:
            if self._connection is not None:
                self._connection.terminate()

    async def _beat(self) -> float:
        """Renew once; return how long to wait for the next time."""
        began_s = steady_s()
        if began_s - self._last_s > self._tuning.lease_s / 2 + self._tuning.beat_s:
            self._steady_since_s = math.inf  # this process was held up itself
        self._last_s = began_s
        try:
            nodes = await self._renew()
        except Exception as error:
            if not isinstance(named(error), JournalError):
                raise
            self._steady_since_s = math.inf
            if self._connection is not None:
                self._connection.terminate()
                self._connection = None
            _log.debug("the lease could not be renewed: %s", error)
            return self._tuning.pause_last_s
        now_s = steady_s()
        if now_s - began_s > self._tuning.lease_s / 2:
            self._steady_since_s = math.inf
        self._steady_since_s = min(self._steady_since_s, now_s)
        others = [one for one in nodes if one.incarnation != self._membership.incarnation]
        await self._look_at(others)
        next_s = min([one.lease_left_s for one in others if one.lease_left_s > 0], default=math.inf)
        return max(min(self._tuning.beat_s, next_s + 0.01) - (steady_s() - began_s), 0.01)

    async def _renew(self) -> Sequence[Node]:
        if self._connection is None or self._connection.is_closed:
            self._connection = await self._database.connect("lease", query_s=self._tuning.lease_s / 2)
        membership = self._membership
        incarnation, sent_s = membership.incarnation, steady_s()
        found = await self._connection.rows(
            "beat", incarnation=incarnation, lease_s=self._tuning.lease_s, channel=self._channel()
        )
        if found:
            self.clock.add(asked_s=sent_s, answered_s=steady_s(), database_s=found[0]["now_s"])
        if any(row["is_renewed"] for row in found):
            if incarnation == membership.incarnation:
                membership.renewed(sent_s)
        elif incarnation == membership.incarnation and not membership.is_lost:
            membership.is_lost = True
            self._lost()
        return [Node(row["name"], row["url"], row["incarnation"], row["lease_left_s"]) for row in found]

    async def _look_at(self, others: Sequence[Node]) -> None:
        alive = {one.incarnation for one in others}
        is_steady = steady_s() - self._steady_since_s >= self._tuning.lease_s
        for one in others:
            if one.lease_left_s <= 0 and is_steady and await self._take_over(one):
                alive.discard(one.incarnation)
        if self._others - alive:
            self._changed("claimable")
        self._others = alive

    async def _take_over(self, node: Node) -> bool:
        try:
            is_gone = await end_node(
                self._database, node.incarnation, ended="expired", lock_s=self._tuning.lock_s
            )
        except Exception as error:
            if not is_lost(error) and not isinstance(named(error), JournalError):
                raise
            _log.warning("can't take over from node %s yet: %s", node.name, error)
            return False
        if is_gone:
            _log.warning("node %s has not renewed its lease, so others take over its sessions", node.name)
            self._others.add(node.incarnation)
        return is_gone
