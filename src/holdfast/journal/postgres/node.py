"""This process as a node: its row in the database, its lease, and what it does about nodes that died."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence

from holdfast.interfaces.journal import FenceLost, JournalError
from holdfast.interfaces.nodes import Node, OwnershipChange
from holdfast.interfaces.system_clock import steady_s
from holdfast.journal.postgres.clock_samples import ClockSamples
from holdfast.journal.postgres.connection import CONFLICTS, Connection, Database, is_lost, named
from holdfast.journal.postgres.queries import queries
from holdfast.journal.postgres.tuning import PostgresTuning

_log = logging.getLogger(__name__)


class NodeRowGone(Exception):
    """The node's row is not there any more, so it has to register again."""


class Membership:
    """The node's row. Only the writer calls its methods, so appends and registrations never overlap."""

    def __init__(
        self, database: Database, *, name: str, url: str, homes: tuple[str, ...], tuning: PostgresTuning
    ) -> None:
        self._database = database
        self._tuning = tuning
        self.name = name
        self.url = url
        self.homes = homes
        self.incarnation = 0
        self.writer = 0
        self.is_lost = False  # the row is gone, so another node may own our sessions
        self._asked_s = 0.0
        self.lease_until_s = 0.0  # on our own monotonic clock

    @property
    def node(self) -> Node:
        """This process as others see it."""
        left_s = max(self.lease_until_s - time.monotonic(), 0.0)
        return Node(self.name, self.url, self.incarnation, left_s, self.homes)

    async def join(self, connection: Connection) -> bool:
        """Own the row on a new connection; False if this is not the incarnation that it was before.

        Afterwards no statement of an earlier connection is in flight any more.
        """
        if self.incarnation and not self.is_lost:
            writer: int | None = await connection.value("raise_writer", incarnation=self.incarnation)
            if writer is not None:
                self.writer = writer
                return True
        if not self.incarnation:
            await self._replace_predecessor(connection)
        asked_s = time.monotonic()
        try:
            incarnation: int = await connection.value(
                "register",
                name=self.name,
                url=self.url,
                homes=list(self.homes),
                lease_s=self._tuning.lease_s,
            )
        except CONFLICTS as error:
            raise FenceLost(
                f"another server with the node name {self.name!r} has started: give each server its own "
                "name, then restart this one"
            ) from error
        self.incarnation, self.writer, self.is_lost = incarnation, 1, False
        self.renewed(asked_s)
        return False

    async def _replace_predecessor(self, connection: Connection) -> None:
        """End an earlier process of this name, which can't be running any more."""
        earlier = await connection.value("node_named", name=self.name)
        if earlier is not None:
            await end_node(self._database, earlier, ended="replaced", lock_s=self._tuning.lock_s)

    def renewed(self, asked_s: float) -> None:
        """Note that the lease was renewed by a request sent at this time."""
        self.lease_until_s = asked_s + self._tuning.lease_s

    async def leave(self, connection: Connection) -> None:
        """Remove the row, so that others can claim our sessions at once."""
        if self.incarnation and not self.is_lost:
            bindings = {"incarnation": self.incarnation, "ended": "closed"}
            await connection.execute(queries()["end_node"], bindings)
        self.lease_until_s = 0.0


async def end_node(database: Database, incarnation: int, *, ended: str, lock_s: float) -> bool:
    """Remove a node's row; whatever statement it has in flight is finished or ended first."""
    connection = await database.connect("take-over")
    ending = asyncio.ensure_future(
        connection.execute(queries()["end_node"], {"incarnation": incarnation, "ended": ended})
    )
    try:
        await asyncio.wait([ending], timeout=lock_s)
        if not ending.done():
            helper = await database.connect("take-over")
            try:
                await helper.rows("terminate_blockers", pid=connection.pid)
            finally:
                helper.terminate()
        return bool(await ending)
    finally:
        connection.terminate()
        await asyncio.wait([ending])


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
                await asyncio.sleep(pause_s)
        finally:
            if self._connection is not None:
                self._connection.terminate()

    async def _beat(self) -> float:
        """Renew once; return how long to wait for the next time."""
        began_s = time.monotonic()
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
        now_s = time.monotonic()
        if now_s - began_s > self._tuning.lease_s / 2:
            self._steady_since_s = math.inf
        self._steady_since_s = min(self._steady_since_s, now_s)
        others = [one for one in nodes if one.incarnation != self._membership.incarnation]
        await self._look_at(others)
        next_s = min([one.lease_left_s for one in others if one.lease_left_s > 0], default=math.inf)
        return max(min(self._tuning.beat_s, next_s + 0.01) - (time.monotonic() - began_s), 0.01)

    async def _renew(self) -> Sequence[Node]:
        if self._connection is None or self._connection.is_closed:
            self._connection = await self._database.connect("lease", query_s=self._tuning.lease_s / 2)
        membership = self._membership
        incarnation, asked_s = membership.incarnation, time.monotonic()
        began_s = steady_s()
        found = await self._connection.rows("beat", incarnation=incarnation, lease_s=self._tuning.lease_s)
        if found:
            self.clock.add(asked_s=began_s, answered_s=steady_s(), database_s=found[0]["now_s"])
        await self._connection.rows("notify", channel=self._channel(), payload="")
        if any(row["is_renewed"] for row in found):
            if incarnation == membership.incarnation:
                membership.renewed(asked_s)
        elif incarnation == membership.incarnation and not membership.is_lost:
            membership.is_lost = True
            self._lost()
        return [Node(row["name"], row["url"], row["incarnation"], row["lease_left_s"]) for row in found]

    async def _look_at(self, others: Sequence[Node]) -> None:
        alive = {one.incarnation for one in others}
        is_steady = time.monotonic() - self._steady_since_s >= self._tuning.lease_s
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
