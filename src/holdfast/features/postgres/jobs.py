"""Jobs of the writer: appends, which share a statement, and other writes, which don't."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.events import Event
from holdfast.interfaces.journal import Condition, Fence, IdempotencyKey, Record

if TYPE_CHECKING:
    from asyncio import Future

    from holdfast.features.postgres.connection import Connection


class PendingAppend(Struct, eq=False):
    """Events to append to a log."""

    future: "Future[Any]"
    session_id: str
    records: Sequence[Record]
    bytes: int
    fence: Fence | None
    when: Sequence[Condition]
    idempotency_key: IdempotencyKey | None
    new_types: Sequence[type[Event]] = ()  # of which it isn't known that every node reads them
    is_quiet: bool = False  # only deltas of a run, without conditions, key and new types: no row changes
    vectors: dict[int, list[str]] | None = None  # the words of long texts, by their place among the records
    events: Sequence[Event] = ()  # for the store's hook
    began_s: float = 0.0


class PendingCall(Struct, kw_only=True, eq=False):
    """Any other write. It may be done twice if the connection is lost, so it must not matter how often."""

    future: "Future[Any]"
    work: "Callable[[Connection], Awaitable[Any]]"
    then: Callable[[Any], None] | None = None
    was_sent: bool = False  # a lost connection may have written it
