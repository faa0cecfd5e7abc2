"""Where events are kept: the contracts of the journal, its index, notes and blobs.

An implementation is complete when it passes the conformance suite in tests/journal.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self, TypeAlias
from zlib import crc32

import msgspec
from msgspec import Struct

from holdfast.codec import decode, native_frame
from holdfast.events import Event, Input
from holdfast.interfaces.index import Index
from holdfast.interfaces.nodes import Nodes
from holdfast.redaction import Redactor
from holdfast.supervision import ExpectedError
from holdfast.values import LogEnd


class Record(msgspec.Struct, eq=False, gc=False):
    """One event at its position in a log: seq, stored bytes and, on demand, the event and its native frame.

    All readers of a log share its records, so each is decoded and framed at most once. A record has no
    reference cycles, so the garbage collector ignores it.
    """

    session_id: str
    seq: int
    body: bytes
    decoded: Event | None = None
    framed: bytes | None = None

    @classmethod
    def verified(cls, session_id: str, seq: int, *, crc: int, body: bytes) -> Self:
        """A stored event as a record; raises StoreDamaged if the body doesn't match its CRC-32."""
        if crc32(body) != crc:
            raise StoreDamaged(
                f"integrity check failed at session {session_id} seq {seq}: the stored event is not the one "
                "that was written; restore a backup"
            )
        return cls(session_id, seq, body=body)

    @property
    def event(self) -> Event:
        """The event; raises UnreadableEvent with session and seq."""
        if self.decoded is None:
            self.decoded = decode(self.body, where=f"session {self.session_id} seq {self.seq}")
        return self.decoded

    @property
    def frame(self) -> bytes:
        """The native SSE frame."""
        if self.framed is None:
            self.framed = native_frame(self.seq, self.body)
        return self.framed


@dataclass(frozen=True, slots=True)
class Fence:
    """Proof that this node owns a session; a later claim by another node invalidates it.

    `crashed` says whether the node that owned the session before had crashed; None means that the store
    doesn't know.
    """

    number: int
    crashed: bool | None = field(default=None, compare=False)


class IfRunKnown(Struct, frozen=True):
    """The run exists in this session; it may have ended, and the session may be deleted."""

    run_id: str


class IfRunOpen(IfRunKnown, frozen=True):
    """The run exists in this session and hasn't ended."""


class IfAskOpen(Struct, frozen=True):
    """The ask belongs to this session and is not answered, expired or withdrawn.

    If `at_ms` is given, the ask also mustn't have passed its expiry by then, whether or not its run has
    recorded that.
    """

    ask_id: str
    at_ms: int = 0


class IfSessionNew(Struct, frozen=True):
    """The session's log is empty."""


class IfSessionKnown(Struct, frozen=True):
    """The session's log has events and the session is not deleted."""


class IfRunsOpenBelow(Struct, frozen=True):
    """The session has fewer open runs than this; a new session has none."""

    count: int


class IfUntitled(Struct, frozen=True):
    """Nobody has given the session a title, and it isn't deleted."""


Condition: TypeAlias = IfRunKnown | IfAskOpen | IfSessionNew | IfSessionKnown | IfRunsOpenBelow | IfUntitled


class IdempotencyKey(Struct, frozen=True):
    """An idempotency key: the first append with it stores `answer`, later ones get that back."""

    key: str
    digest: str
    answer: bytes
    expires_at_ms: int


class Appended(msgspec.Struct, frozen=True):
    """The events are on disk with these seqs; created for every delta, so it must be cheap."""

    first_seq: int
    last_seq: int


class Declined(Struct, frozen=True):
    """A condition did not hold, so nothing was written."""

    condition: Condition


class Replayed(Struct, frozen=True):
    """The key was used before with the same digest, so nothing was written; this is the stored answer."""

    answer: bytes


class KeyConflict(Struct, frozen=True):
    """The key was used before with another digest, so nothing was written."""


class JournalError(ExpectedError):
    """The store did not accept the events. The text says what to do."""


class FenceLost(JournalError):
    """Another process owns the session now; this one must stop writing for its runs."""


class NodeNameTaken(FenceLost):
    """Another process that lives has this node's name; the text says which one."""


class OwnedElsewhere(JournalError):
    """Another node owns the session; `node` is its name and `url` its address."""

    def __init__(self, node: str, url: str) -> None:
        super().__init__(node, url)
        self.node = node
        self.url = url

    def __str__(self) -> str:
        place = f" ({self.url})" if self.url else ""
        return f"the session belongs to node {self.node}{place}, which is working on it"


class HomedElsewhere(JournalError):
    """The session's files are where this node can't reach them; `home` says where."""

    def __init__(self, home: str) -> None:
        super().__init__(home)
        self.home = home

    def __str__(self) -> str:
        kind, _, name = self.home.partition(":")
        return f"the session's files are on {kind} {name}, which this node can't reach"


class MissingCapability(JournalError):
    """This node lacks what the session's run needs; `lacking` says what."""

    def __init__(self, lacking: tuple[str, ...]) -> None:
        super().__init__(lacking)
        self.lacking = lacking

    def __str__(self) -> str:
        return f"this node lacks {', '.join(self.lacking)}"


class UnknownSession(JournalError):
    """The log doesn't exist, and the first event isn't session.created."""


class StoreFull(JournalError):
    """The disk is full, or this process has reached its quota."""


class StoreReadOnly(JournalError):
    """The store's files can't be written."""


class StoreLocked(JournalError):
    """Another process holds the write lock."""


class StoreFailed(JournalError):
    """The disk reported an error, so the events may not be on it."""


class StoreDamaged(JournalError):
    """Something that was on disk is no longer readable."""


class StoreUnreachable(JournalError):
    """The database doesn't answer, or refuses connections; nothing was written."""


class NotReadableYet(JournalError):
    """Another node runs an older version that can't read such an event; nothing was written."""


class StoreOverloaded(JournalError):
    """Too many appends are waiting."""


class StoreClosed(JournalError):
    """The store has been closed."""


class OutcomeUnknown(JournalError):
    """The connection to the store was lost in the middle of a write, so the events may or may not be there.

    Repeat the write under its idempotency key, or look for the events. The store has `trouble` until it can
    tell; after that, the events are there to be read, or they never will be.
    """


# Trouble that may pass while a store is being opened: a lock is released, space is freed, a disk comes back.
# A store that is read-only at that point stays read-only.
TRANSIENT_AT_OPENING = (StoreLocked, StoreFull, StoreFailed, StoreUnreachable)
# Trouble with a write that may pass, so a run waits for it. Nothing was written. Any other JournalError is
# final, except OutcomeUnknown, after which the events may be there: look before you write them again.
TRANSIENT = (*TRANSIENT_AT_OPENING, StoreReadOnly, StoreOverloaded, NotReadableYet)

Pace: TypeAlias = Literal["every", "seldom"]
# Every log, or those of triggers, channels and memories, which are no sessions.
LogKind: TypeAlias = Literal["all", "automations"]


class Following(Protocol):
    """A reader of a log: an async iterator over batches of records; see Journal.follow."""

    __slots__ = ()

    def __aiter__(self) -> Self: ...
    async def __anext__(self) -> Sequence[Record]: ...

    def wake(self) -> None:
        """Give a reader that waits for the next batch an empty one now; does nothing if none waits."""
        ...


class LogWatch(Protocol):
    """Tells without reading whether a log has changed; see Journal.watch."""

    @property
    def position(self) -> int | None:
        """A number that stays the same as long as the log does.

        It is None if the store can't tell: the log was purged, or other processes write to it too.
        """
        ...


class Reading(Protocol):
    """A store whose logs can be read."""

    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        """Events after a seq, in order."""
        ...


class ReadableStore(Reading, Index, Protocol):
    """A store that nobody writes to through this object."""


class Journal(Protocol):
    """The logs. Every event is appended, committed and published, in that order.

    - One log per session with seqs 1, 2, 3 …; no seq is ever reused, and only `thin` leaves gaps.
    - `append` and `append_run` return when the events are on disk. Only then can readers see them.
    - The events of an append, their index rows, search text, blob references and idempotency key are written
      in one transaction, or nothing is.
    - A condition that doesn't hold is a value (`Declined`), not an exception.
    - The times of a log never go back: an `at_ms` before that of the last event is raised to it.
    - If the caller is cancelled while it waits, the append happens completely or not at all. Appends are
      written in the order they are submitted, so after a later append has returned, a read shows which.
    - An append has at least one event. A JournalError means that nothing was written, now or after a restart.
      There are two exceptions: if the disk fails again while a failed commit is undone (StoreFailed), the
      events may reappear after a power cut; and OutcomeUnknown says that the store can't tell.
    - Several nodes may use one store. Each accepts inputs and reads for every session, but a session's runs
      belong to one node at a time.
    """

    async def claim(self, session_id: str, *, to_settle: bool = False) -> Fence:
        """Become the owner of the session's runs; raises OwnedElsewhere while another node owns it.

        Raises HomedElsewhere if this node can't reach the session's files, unless the claim is only to end
        runs that were stopped. Claiming a session again returns the same fence. A session that doesn't exist
        yet can be claimed, to create it with `append_run`.
        """
        ...

    async def release(self, session_id: str, fence: Fence) -> None:
        """Give up ownership, after everything appended so far; does nothing if the fence is not the newest.

        In a store that belongs to one process, this changes nothing.
        """
        ...

    async def append(
        self,
        session_id: str,
        inputs: Sequence[Input],
        *,
        when: Sequence[Condition] = (),
        idempotency_key: IdempotencyKey | None = None,
    ) -> Appended | Declined | Replayed | KeyConflict:
        """Append input from outside; needs no ownership."""
        ...

    def append_run(
        self,
        session_id: str,
        events: Sequence[Event],
        *,
        fence: Fence,
        when: Sequence[Condition] = (),
        idempotency_key: IdempotencyKey | None = None,
    ) -> Awaitable[Appended | Declined | Replayed]:
        """Append a run's own events; raises FenceLost if the fence was lost or released.

        `idempotency_key` is for records that may be appended again after a crash, such as those of a spool.
        """
        ...

    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        """Up to `limit` events with seq > `after`, in order; an unknown session has none.

        Raises StoreDamaged, with session and seq, if an event is not the one that was written.
        """
        ...

    async def read_each(
        self, places: Sequence[tuple[str, int]], *, limit: int
    ) -> Sequence[Sequence[Record] | StoreDamaged]:
        """`read` for several (session_id, after) at once; damage is returned, not raised."""
        ...

    def follow(self, session_id: str, *, after: int = 0, pace: Pace = "every") -> "Following":
        """All events with seq > `after`, in order: those on disk, then new ones as they are committed.

        Live and replay use the same path. Each step returns a non-empty batch. The iterator ends when the
        session is purged or the journal is closed. You can abandon or cancel it at any point, and it needs no
        closing. With pace `seldom`, deltas and output arrive together with the next other event, or many at
        once.
        """
        ...

    def watch(self, session_id: str) -> LogWatch:
        """The log's position from now on, for values that are kept as long as their log doesn't change."""
        ...

    def changes(self, *, of: LogKind = "all") -> AsyncIterator[Sequence[str]]:
        """Ids of logs of this kind in which something happens from now on, gathered between steps.

        Deltas don't count. The iterator ends when the journal is closed; you can abandon it at any point.
        """
        ...

    async def last_seq(self, session_id: str) -> int:
        """The newest seq of the log, 0 if it is empty."""
        ...

    async def purge(
        self, session_id: str, *, only: LogEnd | None = None, then: Callable[[], None] | None = None
    ) -> bool:
        """Remove every trace of the session from the store and end its followers; return whether it is gone.

        This removes its events, rows, search text, keys, notes under `session/<session_id>/`, and the blobs
        that no other session names. A session created later with the same id is a different log. `then` is
        called before anyone can see that new log; the purge itself may take much longer. With `only`,
        nothing happens if the log has grown or is another one, because someone wants the session after all.
        """
        ...

    def thin(self, session_id: str, *, before_ms: int) -> AsyncGenerator[int]:
        """Join deltas of runs that ended before then; each step yields how many events it removed.

        Consecutive deltas of one segment, followed by the segment's `.done`, can become one: the first then
        has all the text, and the other seqs become gaps. Nothing else changes, so every fold of the log stays
        the same, and a cursor in a gap continues after it.

        Each step is one short transaction or one short read. You can stop after any step; the next call
        continues from there. Raises StoreDamaged or UnreadableEvent if the log can't be read; the log is then
        left alone, and is not tried again until the session has new events.
        """
        ...


class Notes(Protocol):
    """Small last-write-wins values that are not history. Losing one may cost time, but never an event.

    A session's note has a key that starts with `session/<session_id>/`, and is purged with the session.
    """

    async def note(self, key: str) -> bytes | None:
        """The value, or None."""
        ...

    async def notes(self, prefix: str) -> Mapping[str, bytes]:
        """All values whose key starts with the prefix."""
        ...

    async def put_note(self, key: str, value: bytes) -> None:
        """Write a value; it is on disk when this returns."""
        ...

    async def swap_note(self, key: str, value: bytes, *, expected: bytes | None) -> bool:
        """Write a value if the stored one is still `expected` (None: there is none); return whether it was.

        Of several processes that replace the same value at the same time, one succeeds. After OutcomeUnknown,
        read the note.
        """
        ...

    async def drop_note(self, key: str) -> None:
        """Remove a value, if it exists."""
        ...


class Blobs(Protocol):
    """Payloads too large for an event, named by the SHA-256 of their bytes.

    A blob is on disk before `put_blob` returns, and so before any event can name it. It is kept as long as an
    event of some session names it. A blob that no event names is removed after a while.
    """

    async def put_blob(self, data: bytes) -> str:
        """Store the bytes and return their name; equal bytes have equal names."""
        ...

    async def keep_blob(self, name: str) -> bool:
        """Like `put_blob`, for bytes that are already stored; False if they aren't."""
        ...

    async def blob(self, name: str) -> bytes | None:
        """The bytes, or None; raises StoreDamaged if they no longer match their name."""
        ...


class StoreHooks(Struct, frozen=True):
    """Functions that a store calls when something is appended.

    `before_append` returns the inputs to append instead; the store redacts them after it. `after_commit` is
    called with events that were written, on the event loop, and with the seconds since `append`.
    """

    before_append: Callable[[Sequence[Input]], Sequence[Input]] | None = None
    after_commit: Callable[[Sequence[Event], float], None] | None = None


class Store(Journal, Index, Notes, Blobs, Nodes, Protocol):
    """Everything that a running Holdfast stores. `redactor` removes secrets from inputs and blobs.

    A store may be readable but not writable, for example while another process holds the write lock, the disk
    is full, or the database can't be reached. Then every write raises `trouble`.
    """

    redactor: Redactor
    hooks: StoreHooks

    @property
    def trouble(self) -> JournalError | None:
        """Why nothing can be written now; None if writing works. A store that was opened may return to it."""
        ...

    @property
    def blob_trouble(self) -> JournalError | None:
        """Why some blobs can't be read or aren't where they should be, while everything else works."""
        return None

    @property
    def failing(self) -> Mapping[str, str]:
        """The store's background tasks that have failed recently, and their newest errors."""
        return {}

    async def lost_writes(self) -> str:
        """Writes of the last day that the store had confirmed and then lost, for people; usually empty."""
        return ""

    async def writable(self) -> None:
        """Wait until the store is open for writing; raises if it never will be."""
        ...

    async def offer_blob(self, data: bytes) -> str:
        """Like `put_blob`, for an event that may come later; `keep_blob` then reserves the blob for it."""
        ...

    async def sweep_blobs(self, *, unnamed_for_s: float = 86_400.0) -> int:
        """Remove blobs that no event names and that weren't put or kept for this long; return how many."""
        ...

    async def close(self) -> None:
        """Finish accepted work, refuse the rest with StoreClosed, and end all followers.

        You can call it again. If the caller is cancelled, closing continues.
        """
        ...
