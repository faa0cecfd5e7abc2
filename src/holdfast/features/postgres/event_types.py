"""The event types and blobs that can be written while nodes of several versions share a database.

A type is written only if every node that is there reads it, and then it is recorded for good. A node that
doesn't read every recorded type doesn't start. Each side writes before it looks, so one of them sees the
other.
"""

from collections.abc import Iterable, Sequence

from holdfast.codec import TYPES, UPCASTS, is_foreign
from holdfast.events import Event
from holdfast.features.postgres.connection import Connection
from holdfast.features.postgres.queries import queries
from holdfast.folds.rows import QUIET
from holdfast.interfaces.journal import NotReadableYet, StoreReadOnly

OBJECTS = "blob.object"  # stands among the types for blobs that are in an object store
READS = frozenset(TYPES) | frozenset(UPCASTS) | {OBJECTS}
_TAGS = {event: tag for tag, event in TYPES.items()}


class EventTypes:
    """The types that this node reads, and those of which it knows that everybody does."""

    def __init__(self, reads: frozenset[str] = READS) -> None:
        self.reads = reads
        self.deltas: set[type[Event]] = set()  # those among the writable ones that change no row
        self._writable: set[type[Event]] = set()
        self._has_objects = False  # everybody reads them

    def new(self, events: Iterable[Event]) -> Sequence[type[Event]]:
        """The types of these events of which it isn't known that every node reads them."""
        return [kind for kind in map(type, events) if kind not in self._writable]

    async def insist(self, connection: Connection) -> None:
        """Raise StoreReadOnly if there are events that this node can't read; its row is there already."""
        recorded = {row[0] for row in await connection.rows("event_types")}
        if unknown := sorted(tag for tag in recorded - self.reads if not is_foreign(tag)):
            raise StoreReadOnly(
                f"the database has events of a newer Holdfast ({_some(unknown)}): update Holdfast on this "
                "machine"
            )
        self._allow({TYPES[tag] for tag in recorded if tag in TYPES})
        self._has_objects = OBJECTS in recorded

    async def refusal(self, connection: Connection, wanted: Iterable[type[Event]]) -> NotReadableYet | None:
        """Why events of these types can't be written yet; None if they can."""
        new = set(wanted) - self._writable
        if not new:
            return None
        tags = sorted(_TAGS[event] for event in new)
        if behind := await self._behind(connection, tags) or await self._recorded(connection, tags):
            return _not_yet(behind, tags)
        self._allow(self._writable | new)
        return None

    async def allows_objects(self, connection: Connection) -> bool:
        """Whether blobs may be in an object store, because every node can read them there."""
        if not self._has_objects:
            tags = [OBJECTS]
            behind = await self._behind(connection, tags) or await self._recorded(connection, tags)
            self._has_objects = not behind
        return self._has_objects

    async def _recorded(self, connection: Connection, tags: Sequence[str]) -> list[str]:
        """Record the types; return the nodes that have come meanwhile and can't read them."""
        await connection.execute(queries()["add_event_types"], {"tags": tags})
        return await self._behind(connection, tags)

    def _allow(self, types: set[type[Event]]) -> None:
        self._writable = types
        self.deltas = types & QUIET

    @staticmethod
    async def _behind(connection: Connection, tags: Sequence[str]) -> list[str]:
        return [row["name"] for row in await connection.rows("nodes_that_cannot_read", tags=tags)]


def _not_yet(behind: Sequence[str], tags: Sequence[str]) -> NotReadableYet:
    return NotReadableYet(
        f"{_some(behind)} runs an older Holdfast, which can't read {_some(tags)} events: update it"
    )


def _some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"  # noqa: PLR2004  # as above
