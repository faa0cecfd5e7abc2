"""The processes that share a store: who they are, and which of them works on which session."""

import math
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec


class Node(msgspec.Struct, frozen=True):
    """One process that works on the store; `incarnation` is different after each start.

    `lease_left_s` says for how long the node certainly still owns its sessions. A store that belongs to one
    process has one node without a name, and its lease never ends.
    """

    name: str = ""
    url: str = ""
    incarnation: int = 0
    lease_left_s: float = math.inf
    homes: tuple[str, ...] = ()  # of sessions that it can continue besides those without a home
    sessions: int = 0  # how many it owns
    offers: tuple[str, ...] = ()  # its targets, tools and MCP servers, see holdfast.agent.capabilities


class SessionPlace(msgspec.Struct, frozen=True):
    """Which node works on a session, and where its files are.

    `is_away` says that no living node reaches the files; `away_since_ms` is 0 if nobody knows since when.
    """

    owner: str = ""
    url: str = ""
    home: str = ""
    is_away: bool = False
    away_since_ms: int = 0


# "lost": this node no longer owns any session that it had claimed.
# "claimable": there may be sessions to claim.
OwnershipChange: TypeAlias = Literal["lost", "claimable"]


class Nodes(Protocol):
    """The processes that share a store, and what they own."""

    @property
    def node(self) -> Node:
        """This process."""
        ...

    @property
    def clock_offset_ms(self) -> int:
        """By how much the store's clock is ahead of this computer's; 0 if they are the same."""
        return 0

    async def nodes(self) -> Sequence[Node]:
        """All nodes that haven't ended, by name; one whose lease has run out has no time left."""
        ...

    async def place(self, session_id: str) -> SessionPlace:
        """Where the session is worked on; in a store that belongs to one process, this says nothing."""
        ...

    async def claimable(self, *, limit: int = 100, busy: Collection[str] | None = None) -> Sequence[str]:
        """Ids of sessions with open runs or undelivered steers that no node owns, oldest first.

        Those whose files this node can't reach are left out, unless a stopped run of theirs waits for its
        ending. In a store that belongs to one process, these are all sessions with such work. `busy` are
        those that this process works on. If it is given, what the node owns without working on it is there,
        too: it claimed or released that, and didn't hear whether it was done.
        """
        ...

    def ownership(self) -> AsyncIterator[Sequence[OwnershipChange]]:
        """What happens to ownership from now on, gathered between steps.

        The iterator ends when the store is closed; you can abandon it at any point.
        """
        ...


async def leads(nodes: Nodes) -> bool:
    """Whether this process does what one node does for all: of those alive, it joined first."""
    if not nodes.node.name:
        return True
    alive = [node.incarnation for node in await nodes.nodes() if node.lease_left_s > 0]
    return min(alive, default=0) == nodes.node.incarnation
