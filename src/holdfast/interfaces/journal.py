"""Where events are kept, with the contracts: a journal, its index, notes and blobs.

An implementation is done when the conformance suite in tests/journal is green for it.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self, TypeAlias
from zlib import crc32

import msgspec

from holdfast.codec import decode, native_frame
from holdfast.events import AnyEvent, Event, Input
from holdfast.folds.rows import AskRow, RunRow, RunStatus, SessionRow
from holdfast.values import OPENAI, OutcomeKind


class Record(msgspec.Struct, eq=False, gc=False):
    """One event at its place in a log: seq, stored bytes, and lazily the event and its native frame.

    Records are shared by all readers of a log, so decoding and framing happen at most once. Nothing in one
    leads back to it, so the garbage collector need not look at it.
    """

    session_id: str
    seq: int
    body: bytes
    decoded: Event | None = None
    framed: bytes | None = None

    @classmethod
    def verified(cls, session_id: str, seq: int, *, crc: int, body: bytes) -> Self:
        """A stored event as a record; raises StoreDamaged if the body does not match its CRC-32."""
        if crc32(body) != crc:
            raise StoreDamaged(
                f"integrity check failed at session {session_id} seq {seq}: the stored event is not the one "
                "that was written; restore a backup"
            )
        return cls(session_id, seq, body=body)

    @property
    def event(self) -> AnyEvent:
        """The event; raises UnreadableEvent naming session and seq."""
        if self.decoded is None:
            self.decoded = decode(self.body, where=f"session {self.session_id} seq {self.seq}")
        return self.decoded  # pyright: ignore[reportReturnType]  # every Event that is made is of the closed set

    @property
    def frame(self) -> bytes:
        """The native SSE frame."""
        if self.framed is None:
            self.framed = native_frame(self.seq, self.body)
        return self.framed


@dataclass(frozen=True, slots=True)
class Fence:
    """Proof of ownership; a higher number makes every lower one worthless."""

    number: int


@dataclass(frozen=True, slots=True)
class IfRunOpen:
    """The run exists in this session and has no ending."""

    run_id: str


@dataclass(frozen=True, slots=True)
class IfAskOpen:
    """The approval or question is of this session and neither answered, expired nor withdrawn.

    If a time is given it is not past its expiry then, either, whether or not its run has said so.
    """

    ask_id: str
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class IfSessionNew:
    """The session's log has no event."""


@dataclass(frozen=True, slots=True)
class IfSessionKnown:
    """The session's log has events and is not deleted."""


@dataclass(frozen=True, slots=True)
class IfRunsOpenBelow:
    """Fewer runs of the session than this have no ending; a new session has none."""

    count: int


@dataclass(frozen=True, slots=True)
class IfUntitled:
    """Nobody has given the session a title, and it isn't deleted."""


Condition: TypeAlias = IfRunOpen | IfAskOpen | IfSessionNew | IfSessionKnown | IfRunsOpenBelow | IfUntitled


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """An idempotency key: the first append under it stores `answer`, later ones get it back."""

    key: str
    digest: str
    answer: bytes
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """What an idempotency key was used for, and the answer that was given."""

    digest: str
    answer: bytes


class Appended(msgspec.Struct, frozen=True):
    """The events are on disk under these seqs; one is made for every delta of every run."""

    first_seq: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class Declined:
    """A condition did not hold, so nothing was written."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Replayed:
    """The key was used before with the same digest; nothing was written; this was the answer."""

    answer: bytes


@dataclass(frozen=True, slots=True)
class KeyConflict:
    """The key was used before with another digest; nothing was written."""


class JournalError(Exception):
    """The store did not take the events. The text says what to do."""


class FenceLost(JournalError):
    """Someone else owns the store now; this process must stop writing for its runs."""


class UnknownSession(JournalError):
    """The log does not exist, and the first event is not session.created."""


class StoreFull(JournalError):
    """The disk, or what this process may use of it, is full."""


class StoreReadOnly(JournalError):
    """The store cannot be written where it lies."""


class StoreLocked(JournalError):
    """Another process holds the write lock."""


class StoreFailed(JournalError):
    """The disk reported an error; the events may not be trusted to be on it."""


class StoreDamaged(JournalError):
    """What was once on disk is no longer readable."""


class StoreOverloaded(JournalError):
    """More appends are waiting than the store accepts."""


class StoreClosed(JournalError):
    """The store was closed."""


# Trouble that may pass by itself while a store is being opened: a lock is released, space is freed, a disk
# comes back. A store that is read-only then stays so.
TRANSIENT_AT_OPENING = (StoreLocked, StoreFull, StoreFailed)
# Trouble of a write that may pass by itself, so a run waits for it. Any other JournalError is final.
TRANSIENT = (*TRANSIENT_AT_OPENING, StoreReadOnly, StoreOverloaded)

Pace: TypeAlias = Literal["every", "seldom"]


class Following(Protocol):
    """A reader of a log: an async iterator over batches of records; see Journal.follow."""

    def __aiter__(self) -> Self: ...
    async def __anext__(self) -> Sequence[Record]: ...

    def nudge(self) -> None:
        """Let whoever waits for the next batch have an empty one at once; without effect if nobody does."""
        ...


class Journal(Protocol):
    """The logs. Append, commit, publish: in that order, for every event.

    - One log per session, seqs 1, 2, 3 …; no seq is ever used for two events, and only `thin` leaves gaps.
    - `append` and `append_run` return when the events are on disk; only then does any reader see them.
    - All events of one append, its index rows, search text, blob references and idempotency row are written
      in one transaction, or nothing is.
    - A condition that does not hold is a value (`Declined`), not an exception.
    - If the caller is cancelled while it waits, the append happens whole or not at all. What is handed in
      later is written later, so once a later append has returned, reading tells.
    - An append holds at least one event. What cannot be written raises a JournalError, and so it was not
      written: nothing of it is readable, then or after a restart. Only when the disk fails again while a
      failed commit is undone (StoreFailed) may it come to light after a power cut.
    """

    async def claim(self, session_id: str) -> Fence:
        """Become the owner of the session's runs, as of now."""
        ...

    async def append(
        self,
        session_id: str,
        inputs: Sequence[Input],
        *,
        when: Sequence[Condition] = (),
        idempotency_key: IdempotencyKey | None = None,
    ) -> Appended | Declined | Replayed | KeyConflict:
        """Append what came from outside; needs no ownership."""
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
        """Append what a run did; raises FenceLost if the fence is not the newest.

        `once` names a record that may be appended again after a crash, such as one of a spool.
        """
        ...

    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        """Events with seq > `after`, in order, at most `limit`; an unknown session has none.

        Raises StoreDamaged, with session and seq, if an event is not the one that was written.
        """
        ...

    async def read_each(
        self, places: Sequence[tuple[str, int]], *, limit: int
    ) -> Sequence[Sequence[Record] | StoreDamaged]:
        """`read` at each (session_id, after) in one go, for who looks at many logs; damage is a value."""
        ...

    def follow(self, session_id: str, *, after: int = 0, pace: Pace = "every") -> "Following":
        """All events with seq > `after`, those on disk and those to come, in order, none left out.

        Live and replay are one path. Each step gives a non-empty batch. It ends when the session is purged
        or the journal closed. It may be abandoned or cancelled at any point and needs no closing. Who follows
        `seldom` gets deltas and output together with the event that comes after them, or many at once.
        """
        ...

    def changes(self) -> AsyncIterator[Sequence[str]]:
        """Ids of sessions in which something happened from now on, gathered between two steps.

        Deltas are no news here. It ends when the journal is closed and may be abandoned at any point.
        """
        ...

    async def last_seq(self, session_id: str) -> int:
        """The newest seq of the log, 0 if it has none."""
        ...

    async def purge(
        self, session_id: str, *, last_seq: int | None = None, then: Callable[[], None] | None = None
    ) -> bool:
        """Remove every trace of the session from the store; its followers end. Whether it is gone.

        Its events, rows, search text, keys, notes under `session/<session_id>/` and the blobs that no other
        session names go. A session created under the same id afterwards is another log; `then` is called
        before anything of that is seen, while this may go on for long. With `last_seq` nothing happens if the
        log has gone on since: someone wants it again.
        """
        ...

    def thin(self, session_id: str, *, before_ms: int) -> AsyncGenerator[int]:
        """Join deltas of runs that ended before then, a little with each step; how many events went with it.

        Deltas of one segment with consecutive seqs, behind which the segment's `.done` follows, may become
        one: the first of them then holds the text of all, and the other seqs are gaps. Nothing else changes,
        so every fold of the log is as before, and a cursor in a gap goes on behind it.

        Each step is one short transaction or one short look. It may be left at any step, and the next time
        it goes on from there. Raises StoreDamaged or UnreadableEvent if the log cannot be read; then it stays
        as it is, and is not looked through again until the session goes on.
        """
        ...


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """Which sessions to list, newest first, pinned ones before the rest; `before` continues a page."""

    limit: int = 50
    before: "SessionCursor | None" = None
    archived: bool = False
    sources_hidden: tuple[str, ...] = (OPENAI,)


@dataclass(frozen=True, slots=True)
class SessionCursor:
    """The place of the last session of a page."""

    pinned: bool
    updated_ms: int
    session_id: str


@dataclass(frozen=True, slots=True)
class ListedSession:
    """A session with what its open runs and asks say of it."""

    row: SessionRow
    open_runs: int
    open_asks: int
    begun_runs: int = 0  # of the open runs, those that no longer wait for their turn


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A session found by its text: the place, and a passage with each match between the bytes 2 and 3.

    `seq` 0 is the title.
    """

    session_id: str
    title: str
    seq: int
    passage: str


@dataclass(frozen=True, slots=True)
class RunQuery:
    """Which runs to list, newest first; `before` is the (created_ms, run_id) of the last one of a page."""

    limit: int = 50
    before: tuple[int, str] | None = None
    session_id: str = ""
    status: RunStatus | None = None
    outcomes: tuple[OutcomeKind, ...] = ()  # any of these, if it names some
    asking: bool | None = None  # whether something of the run waits for a person


class Index(Protocol):
    """Look-ups beside the logs, always as new as the newest committed event."""

    async def session(self, session_id: str) -> SessionRow | None:
        """One session's row, also while it is deleted but not yet purged."""
        ...

    async def sessions(self, query: SessionQuery) -> Sequence[ListedSession]:
        """A page of the session list; deleted sessions are not in it."""
        ...

    async def listed(self, session_id: str) -> ListedSession | None:
        """One session as the list would show it, also while it is deleted but not yet purged."""
        ...

    async def undelivered_steers(self) -> Sequence[str]:
        """Ids of sessions, not deleted, in which something that was said to a run has not reached one yet."""
        ...

    async def sessions_to_purge(self, *, source: str, before_ms: int) -> Sequence[SessionRow]:
        """Sessions that wait for their purge, and those of `source` that nobody pinned or touched since."""
        ...

    async def unthinned(self, *, before_ms: int, limit: int = 100) -> Sequence[str]:
        """Ids of sessions, not deleted, that `thin` was not done with for runs that ended before then."""
        ...

    async def stored_response(self, key: str, *, now_ms: int) -> StoredResponse | None:
        """What was answered under an idempotency key that has not expired."""
        ...

    async def run(self, run_id: str) -> RunRow | None:
        """Where a run is."""
        ...

    async def runs(self, query: RunQuery) -> Sequence[RunRow]:
        """A page of runs."""
        ...

    async def ask(self, ask_id: str) -> AskRow | None:
        """One approval or question."""
        ...

    async def open_asks(self, *, limit: int = 200) -> Sequence[AskRow]:
        """What waits for a person, oldest first."""
        ...

    async def search(
        self, text: str, *, limit: int = 50, archived: bool | None = None, session_id: str = ""
    ) -> Sequence[SearchHit]:
        """Sessions with a passage that holds every word, the last as a prefix; newest first, one hit each.

        Case does not matter, nor do diacritics on Latin letters. Nothing in `text` is an operator. `archived`
        None looks at all sessions, else at the archived ones or at the others. A session that is named is
        looked at alone, archived or not: each of its passages is a hit, its title is none.
        """
        ...


class Notes(Protocol):
    """Small last-write-wins values that are not history. Losing one may cost time, never an event.

    A note that belongs to a session has a key that begins `session/<session_id>/` and goes with its purge.
    """

    async def note(self, key: str) -> bytes | None:
        """The value, or None."""
        ...

    async def notes(self, prefix: str) -> Mapping[str, bytes]:
        """All values whose key begins so."""
        ...

    async def put_note(self, key: str, value: bytes) -> None:
        """Write a value; it is on disk when this returns."""
        ...

    async def drop_note(self, key: str) -> None:
        """Forget a value, if there is one."""
        ...


class Blobs(Protocol):
    """Payloads too large for an event, named by the SHA-256 of their bytes.

    A blob is on disk before `put_blob` returns, so before any event can name it. It lives while an event of
    some session names it; one that no event names goes after a while.
    """

    async def put_blob(self, data: bytes) -> str:
        """Keep the bytes and return their name; the same bytes have the same name."""
        ...

    async def keep_blob(self, name: str) -> bool:
        """As `put_blob`, for bytes that are kept already; False if they are not."""
        ...

    async def blob(self, name: str) -> bytes | None:
        """The bytes, or None; raises StoreDamaged if they no longer match their name."""
        ...


class Store(Journal, Index, Notes, Blobs, Protocol):
    """Everything that a running Holdfast keeps, under one owner.

    A store may be readable before it is writable (another process holds the write lock, the disk is full).
    Until then every write raises `trouble`; afterwards this process is the owner.
    """

    @property
    def trouble(self) -> JournalError | None:
        """What keeps the store from being opened for writing; None once it is."""
        ...

    async def writable(self) -> None:
        """Wait until the store is open for writing; raises if it never will be."""
        ...

    async def offer_blob(self, data: bytes) -> str:
        """As `put_blob`, for an event that may come later, if somebody does `keep_blob` for it."""
        ...

    async def sweep_blobs(self, *, unnamed_for_s: float = 86_400.0) -> int:
        """Remove blobs that no event names and nobody put or kept for so long; how many went."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, refuse the rest with StoreClosed, end all followers.

        It may be called again; a caller that is cancelled does not stop it.
        """
        ...
