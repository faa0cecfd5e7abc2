"""Feeds, where event streams get their frames: a run as journaled, a session, the session list."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias
from weakref import WeakSet

import msgspec
from typing_extensions import override

from holdfast import events as e
from holdfast.folds.rows import RunRow, run_of
from holdfast.interfaces.journal import Following, Journal, Record
from holdfast.server.options import Limits
from holdfast.server.streams.stream import CLOSED, HEARTBEAT, Feed

View: TypeAlias = Literal["hermes", "native"]

_encode = msgspec.json.Encoder().encode


# The live lines of active runs by run id, for a stream that has been silent for so many seconds; None if they
# aren't known yet.
LinesKnown: TypeAlias = Callable[[float], Mapping[str, str] | None]


class Live:
    """Live lines as ephemeral frames: sent when they change, after some seconds without events."""

    def __init__(self, lines: LinesKnown, *, limits: Limits, view: View) -> None:
        self._lines = lines
        self.limits = limits
        self._field = "event" if view == "hermes" else "type"
        self._shown: Mapping[str, str] = {}

    def ephemeral_frames(self, silent_s: float) -> Sequence[bytes]:
        """The lines that have changed, once the stream has been silent for long enough."""
        if silent_s < self.limits.live_after_s:
            return ()
        lines = self._lines(silent_s)
        if lines is None:
            return ()
        shown, self._shown = self._shown, lines
        return [
            b"data: %b\n\n" % _encode({self._field: "live", "run_id": run_id, "text": line})
            for run_id, line in lines.items()
            if line and line != shown.get(run_id)
        ]

    def next_check_s(self, silent_s: float) -> float | None:
        """When to look for changed lines again; None while no run has a line."""
        lines = self._lines(silent_s)
        return None if lines is not None and not lines else self.limits.next_live_s(silent_s)


class RunFeed(Feed):
    """The events of one run as journaled, up to its ending; `after` is a cursor of the run, or 0."""

    def __init__(self, journal: Journal, row: RunRow, *, after: int, live: Live) -> None:
        self._journal = journal
        self._row = row
        self._live = live
        self._records = self._follow(max(after, row.first_seq - 1))
        self.is_over = False

    def _follow(self, after: int) -> Following:
        return self._journal.follow(self._row.session_id, after=after)

    @override
    async def more(self) -> Sequence[bytes] | None:
        if self.is_over:
            return None
        records = await anext(self._records, None)
        return None if records is None else self._frames(records)

    def _frames(self, records: Sequence[Record]) -> list[bytes]:
        frames: list[bytes] = []
        for record in records:
            event = record.event
            if run_of(event) == self._row.run_id:
                frames.append(record.frame)
                if isinstance(event, e.RunEnded):
                    self.is_over = True
                    return [*frames, CLOSED]
        return frames

    @override
    def wake(self) -> None:
        self._records.wake()

    @override
    def ephemeral_frames(self, silent_s: float) -> Sequence[bytes]:
        return self._live.ephemeral_frames(silent_s)

    @override
    def next_check_s(self, silent_s: float) -> float | None:
        return self._live.limits.next_live_s(silent_s)  # the stream ends with its run


class SessionListChanges:
    """Numbered changes to the session list. A reader too far behind has to reload the list."""

    KEPT = 256

    def __init__(self) -> None:
        self.number = 0
        self._frames: deque[bytes] = deque(maxlen=self.KEPT)
        self._ids: deque[str] = deque(maxlen=self.KEPT)
        self.listeners: WeakSet[SessionListFeed] = WeakSet()

    def listen(self, feed: "SessionListFeed") -> int:
        """Add a feed for as long as it exists; returns the number of the newest change."""
        self.listeners.add(feed)
        return self.number

    def add(self, session_id: str, frame: Mapping[str, object]) -> None:
        """Add a change of a session."""
        self.number += 1
        self._ids.append(session_id)
        self._frames.append(b"data: %b\n\n" % _encode(frame))

    def after(self, number: int) -> Sequence[bytes]:
        """The changes after this number."""
        missed = self.number - number
        if missed > len(self._frames):
            return (b"data: %b\n\n" % _encode({"type": "sessions.stale"}),)
        return list(self._frames)[len(self._frames) - missed :] if missed else ()

    def ids_after(self, number: int) -> Sequence[str] | None:
        """The sessions that changed after this number; None if that isn't known any more."""
        missed = self.number - number
        return None if missed > len(self._ids) else list(self._ids)[len(self._ids) - missed :]


class SessionListFeed(Feed):
    """Changes to the session list only, for a reader with no open session."""

    def __init__(self, list_changes: SessionListChanges) -> None:
        self._changes = list_changes
        self._seen = list_changes.listen(self)
        self._waiter: asyncio.Future[None] | None = None
        self._greeting: tuple[bytes, ...] = (HEARTBEAT,)

    @override
    async def more(self) -> Sequence[bytes] | None:
        # All frames are ephemeral, so this only waits for `wake`.
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter
        return ()

    @override
    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @override
    def ephemeral_frames(self, silent_s: float) -> Sequence[bytes]:
        del silent_s
        frames = [*self._greeting, *self._changes.after(self._seen)]
        self._seen = self._changes.number
        self._greeting = ()
        return frames

    @override
    def next_check_s(self, silent_s: float) -> float | None:
        # Some browsers hand over a response only once it has a body, so a greeting is sent at once.
        del silent_s
        return 0.0 if self._greeting else None


class SessionFeed(SessionListFeed):
    """The whole log of a session, gap-free and endless, and changes to the session list."""

    def __init__(self, records: Following, list_changes: SessionListChanges, *, live: Live) -> None:
        super().__init__(list_changes)
        self._records = records
        self._live = live

    @override
    async def more(self) -> Sequence[bytes] | None:
        records = await anext(self._records, None)
        return None if records is None else [record.frame for record in records]

    @override
    def wake(self) -> None:
        self._records.wake()

    @override
    def ephemeral_frames(self, silent_s: float) -> Sequence[bytes]:
        return [*super().ephemeral_frames(silent_s), *self._live.ephemeral_frames(silent_s)]

    @override
    def next_check_s(self, silent_s: float) -> float | None:
        return 0.0 if self._greeting else self._live.next_check_s(silent_s)
