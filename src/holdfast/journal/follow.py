"""Following a log: the newest records come from memory and older ones from the store, through one code path.

Everything here runs on the event loop's thread. A follower is only a cursor: a slow one falls behind in the
log and holds up nobody, and an abandoned one is garbage-collected.
"""

import asyncio
import weakref
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import Generic, Self, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from typing_extensions import override

from holdfast.codec import UnreadableEvent
from holdfast.folds.rows import QUIET
from holdfast.interfaces.ids import is_automation
from holdfast.interfaces.journal import Following, LogKind, LogWatch, Pace, Record, StoreClosed

Read: TypeAlias = Callable[[str, int, int], Awaitable[Sequence[Record]]]

# The total size of all windows; a reader that is further behind reads from the store.
WINDOW_BYTES_MAX = 32 * 1024 * 1024
LOG_BYTES_MAX = 2 * 1024 * 1024  # the window of one log
RECORD_BYTES = 600  # the size of a record besides its body: the struct, its event, its entry in the window
TAIL_BYTES = 1_500  # the size of a window besides its records
BATCH_RECORDS_MAX = 256
READ_RECORDS_MAX = 64  # per read of the store: a record can be a megabyte, and a whole batch is in memory
NAMES_SPARE = 1_000  # how many names of logs may be kept that nobody needs any more, at least
QUIET_RECORDS_MAX = 128  # this many deltas also wake followers that don't wait for deltas

Waiters: TypeAlias = dict[asyncio.Future[None], None]

KEPT_MAX = 1_000

T = TypeVar("T")


class Tail:
    """The end of one log: its newest records and the followers that wait for the next one."""

    __slots__ = ("__weakref__", "bytes", "closed", "last", "patient", "quiet", "records", "waiters")

    def __init__(self) -> None:
        self.records: deque[Record] = deque()
        self.bytes = 0
        self.last = 0
        self.closed = False
        self.waiters: Waiters = {}
        self.patient: Waiters = {}  # not woken by deltas
        self.quiet = 0  # records since the patient waiters were last woken

    def take(self, records: Sequence[Record]) -> int:
        """Add the newest records; return how many bytes the window grew by."""
        held = size = self.bytes
        window, first = self.records, records[0].seq
        if first != self.last + 1 or not window:
            window.clear()
            size = TAIL_BYTES
        for record in records:
            window.append(record)
            size += len(record.body) + RECORD_BYTES
        self.last = records[-1].seq
        # Records of one commit stay together: the followers about to wake will read them.
        while size > LOG_BYTES_MAX and window[0].seq < first:
            size -= len(window.popleft().body) + RECORD_BYTES
        self.bytes = size
        return size - held

    def forget(self) -> int:
        """Drop the window but keep the last seq; return the number of bytes freed."""
        freed, self.bytes = self.bytes, 0
        self.records.clear()
        return freed

    def after(self, seq: int, limit: int = BATCH_RECORDS_MAX) -> Sequence[Record] | None:
        """Up to `limit` records with a higher seq, or None if the window doesn't reach back that far."""
        if not self.records or self.records[0].seq > seq + 1:
            return None
        start = seq + 1 - self.records[0].seq
        count = max(len(self.records) - start, 0)
        if count < start:
            # Near the end of a deque, counting from the end is faster.
            newest = list(islice(reversed(self.records), count))
            newest.reverse()
            return newest[:limit]
        return list(islice(self.records, start, start + limit))

    def wake(self) -> None:
        """Wake every waiting follower."""
        self.wake_eager()
        self.quiet = 0
        if self.patient:
            waiters, self.patient = self.patient, {}
            _wake(waiters)

    def wake_eager(self) -> None:
        """Wake the followers that want every delta as it arrives."""
        if self.waiters:
            waiters, self.waiters = self.waiters, {}
            _wake(waiters)


class TailWatch(LogWatch):
    """The position of a log whose tail exists as long as somebody watches it."""

    __slots__ = ("_tail",)

    def __init__(self, tail: Tail) -> None:
        self._tail = tail

    @property
    @override
    def position(self) -> int | None:
        return None if self._tail.closed else self._tail.last


def _wake(waiters: Waiters) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


def _is_quiet(record: Record) -> bool:
    try:
        return type(record.event) in QUIET
    except UnreadableEvent:
        return False  # whoever reads it says so


class Tails:
    """The ends of all logs that are followed or were recently written."""

    def __init__(self, read: Read, *, window_bytes_max: int = WINDOW_BYTES_MAX) -> None:
        self._read = read
        self._window_bytes_max = window_bytes_max
        self._bytes = 0
        self._tails: WeakValueDictionary[str, Tail] = WeakValueDictionary()
        # Every log in `_tails`, and some that were in it: a set is asked for many names at once.
        self._names: set[str] = set()
        self._recent: OrderedDict[str, Tail] = OrderedDict()
        self._changes: ChangeFeed[str] = ChangeFeed()
        self._automation_changes: ChangeFeed[str] = ChangeFeed()
        self._closed = False

    def publish(self, session_id: str, records: Sequence[Record]) -> None:
        """Show committed records to the session's followers."""
        if all(map(_is_quiet, records)):
            self.publish_deltas([(session_id, records)])
        else:
            self.publish_news(session_id, records)

    def publish_news(self, session_id: str, records: Sequence[Record]) -> None:
        """Like `publish`, for records which the caller knows to be more than deltas."""
        tail = self._recent[session_id] = self.of(session_id)
        self._recent.move_to_end(session_id)
        self._bytes += tail.take(records)
        if self._bytes > self._window_bytes_max:
            self._shrink()
        tail.wake()
        self.changed(session_id)

    def publish_deltas(self, grown: Iterable[tuple[str, Sequence[Record]]]) -> None:
        """Like `publish`, for records of any number of sessions which the caller knows to be deltas."""
        recent = self._recent
        for session_id, records in grown:
            tail = recent.get(session_id)
            if tail is None:
                tail = recent[session_id] = self.of(session_id)
            else:
                recent.move_to_end(session_id)
            is_next = records[0].seq == tail.last + 1
            self._bytes += tail.take(records)
            tail.quiet = quiet = tail.quiet + len(records)
            if not is_next:
                # Another process appended what is in between, such as a stop. Its notice comes too late to
                # be told from an old one.
                tail.wake()
                self.changed(session_id)
            elif quiet >= QUIET_RECORDS_MAX:
                tail.wake()
            elif tail.waiters:
                tail.wake_eager()
        if self._bytes > self._window_bytes_max:
            self._shrink()

    def _shrink(self) -> None:
        """Drop the oldest windows beyond the limit."""
        while self._bytes > self._window_bytes_max:
            _, oldest = self._recent.popitem(last=False)
            self._bytes -= oldest.forget()

    def last_seq(self, session_id: str) -> int | None:
        """The newest seq of a recently written log, else None."""
        tail = self._recent.get(session_id)
        return tail.last if tail is not None and tail.records else None

    def read(self, session_id: str, after: int, limit: int) -> Sequence[Record] | None:
        """Up to `limit` records with a higher seq, or None if the window doesn't reach back that far."""
        tail = self._recent.get(session_id)
        return None if tail is None else tail.after(after, limit)

    def forget(self) -> None:
        """Drop all windows; followers continue from the store."""
        for tail in self._recent.values():
            tail.forget()
        self._recent.clear()
        self._bytes = 0

    def forget_one(self, session_id: str) -> None:
        """Drop the window of one log because it changed in the store."""
        tail = self._recent.pop(session_id, None)
        if tail is not None:
            self._bytes -= tail.forget()

    @property
    def are_empty(self) -> bool:
        """Whether no log is followed or was recently written."""
        return not self._tails

    def among(self, session_ids: Iterable[object]) -> set[str]:
        """Those of these logs that are followed or were recently written, and perhaps some that were."""
        return self._names.intersection(session_ids)

    def shown(self, session_id: str) -> int | None:
        """The last seq of a log, 0 if nothing was shown yet; None if it's neither followed nor recent."""
        tail = self._tails.get(session_id)
        return None if tail is None else tail.last

    def known(self) -> dict[str, int]:
        """The last seq of every log that is followed or was recently written; 0 if nothing was shown yet."""
        return {session_id: tail.last for session_id, tail in self._tails.items()}

    def awaited(self) -> dict[str, int]:
        """The last seq of every log whose next record somebody waits for."""
        return {
            session_id: tail.last for session_id, tail in self._tails.items() if tail.waiters or tail.patient
        }

    def catch_up(self, session_id: str, records: Sequence[Record]) -> None:
        """Show records that another process appended, unless newer ones were shown since they were read."""
        tail = self._tails.get(session_id)
        if tail is None:
            return
        missed = [record for record in records if record.seq > tail.last]
        if missed and missed[0].seq == tail.last + 1:
            self.publish(session_id, missed)

    def advance(self, session_id: str, last_seq: int) -> None:
        """Make the followers of a log that another process appended to read it from the store."""
        tail = self._tails.get(session_id)
        if tail is not None and tail.last < last_seq:
            self.forget_one(session_id)
            tail.last = last_seq
            tail.wake()

    def changed(self, session_id: str) -> None:
        """Tell of a change of the log, also one that another process made."""
        self._changes.tell(session_id)
        if is_automation(session_id):
            self._automation_changes.tell(session_id)

    def changes(self, of: LogKind) -> "Changes[str]":
        """The logs of this kind that change from now on."""
        return (self._changes if of == "all" else self._automation_changes).subscribe()

    def of(self, session_id: str) -> Tail:
        """The session's tail; it exists as long as it has a follower or a window."""
        tail = self._tails.get(session_id)
        if tail is None:
            tail = self._tails[session_id] = Tail()
            tail.closed = self._closed
            if len(self._names) > 2 * len(self._tails) + NAMES_SPARE:
                self._names = set(self._tails)
            self._names.add(session_id)
        return tail

    def follow(self, session_id: str, after: int, pace: Pace) -> "Follower":
        """A reader of the session's log that starts after this seq."""
        return Follower(self._read, session_id, tail=self.of(session_id), after=after, pace=pace)

    def watch(self, session_id: str) -> TailWatch:
        """The session's position, for a store that no other process writes to."""
        return TailWatch(self.of(session_id))

    def end(self, session_id: str) -> None:
        """End the followers of a session that is gone."""
        tail = self.of(session_id)
        if self._recent.pop(session_id, None) is not None:
            self._bytes -= tail.forget()
        self._tails.pop(session_id, None)
        tail.closed = True
        tail.wake()
        self.changed(session_id)

    def close(self) -> None:
        """End all followers."""
        self._closed = True
        # Before the followers, because the end of a follower is not a change to its session.
        self._changes.close()
        self._automation_changes.close()
        for session_id in list(self._tails):
            self.end(session_id)


class Follower(Following):
    """An async iterator over batches of records; see Journal.follow."""

    __slots__ = (
        "_is_caught_up",
        "_is_patient",
        "_read",
        "_session_id",
        "_tail",
        "_waiter",
        "_woken",
        "after",
    )

    def __init__(self, read: Read, session_id: str, *, tail: Tail, after: int, pace: Pace) -> None:
        self._read = read
        self._session_id = session_id
        self._tail = tail
        self._is_patient = pace == "seldom"
        self._is_caught_up = False
        self._waiter: asyncio.Future[None] | None = None
        self._woken = False
        self.after = after

    @override
    def __aiter__(self) -> Self:
        return self

    @override
    async def __anext__(self) -> Sequence[Record]:
        tail = self._tail
        while not tail.closed:
            last = tail.last
            if last > self.after and (held := tail.after(self.after)) is not None:
                batch, self._is_caught_up = held, True
            elif last > self.after or not self._is_caught_up:
                batch = await self._read_on()
            else:
                batch = ()
            if batch:
                self.after = batch[-1].seq
                return batch
            # Whatever is committed after the read is published after it, and that moves the tail.
            if tail.last == last and not tail.closed:
                self._waiter = waiter = asyncio.get_running_loop().create_future()
                (tail.patient if self._is_patient else tail.waiters)[waiter] = None
                try:
                    await waiter
                finally:
                    self._waiter = None
                    (tail.patient if self._is_patient else tail.waiters).pop(waiter, None)
                if self._woken:
                    self._woken = False
                    return ()
        raise StopAsyncIteration

    @override
    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._woken = True
            self._waiter.set_result(None)

    async def _read_on(self) -> Sequence[Record]:
        try:
            batch = await self._read(self._session_id, self.after, READ_RECORDS_MAX)
        except StoreClosed:
            raise StopAsyncIteration from None
        self._is_caught_up = len(batch) < READ_RECORDS_MAX
        return batch


Item = TypeVar("Item")


class Changes(Generic[Item]):
    """An async iterator over what changed, each item at most once per step; see Journal.changes."""

    def __init__(self) -> None:
        self.closed = False
        self._items: dict[Item, None] = {}
        self._waiter: asyncio.Future[None] | None = None

    def add(self, item: Item) -> None:
        """Note a change."""
        self._items[item] = None
        if self._waiter is not None:
            self._wake()

    def close(self) -> None:
        """End the iterator."""
        self.closed = True
        self._wake()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Sequence[Item]:
        """Wait for a change; return everything that changed since the last step."""
        while not self._items:
            if self.closed:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        items, self._items = list(self._items), {}
        return items

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class ChangeFeed(Generic[Item]):
    """Tells every iterator that it has given out about changes; an abandoned one is garbage-collected."""

    def __init__(self) -> None:
        self._all: list[weakref.ref[Changes[Item]]] = []
        self._closed = False

    def subscribe(self) -> Changes[Item]:
        """What changes from now on."""
        changes: Changes[Item] = Changes()
        changes.closed = self._closed
        self._all.append(weakref.ref(changes, self._all.remove))
        return changes

    def tell(self, item: Item) -> None:
        """Note a change in every iterator."""
        for reference in tuple(self._all):
            if (changes := reference()) is not None:
                changes.add(item)

    def close(self) -> None:
        """End every iterator."""
        self._closed = True
        for reference in tuple(self._all):
            if (changes := reference()) is not None:
                changes.close()
        self._all = []


class KeptValues(Generic[T]):
    """The values that were used last; nobody may change one. `watch` is the journal's."""

    def __init__(self, watch: Callable[[str], LogWatch], *, kept_max: int = KEPT_MAX) -> None:
        self._watch = watch
        self._kept_max = kept_max
        self._kept: OrderedDict[str, tuple[LogWatch, int, T]] = OrderedDict()

    async def get(self, log_id: str, read: Callable[[], Awaitable[T]]) -> T:
        """The value; it is read only if the log has changed since, or if nobody can tell."""
        kept = self._kept.get(log_id)
        if kept is not None and kept[0].position == kept[1]:
            self._kept.move_to_end(log_id)
            return kept[2]
        watch = self._watch(log_id)
        # An append during the read changes the position, so the next caller reads again.
        position = watch.position
        value = await read()
        if position is not None:
            self._kept[log_id] = watch, position, value
            if len(self._kept) > self._kept_max:
                self._kept.popitem(last=False)
        return value
