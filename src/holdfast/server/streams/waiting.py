"""Waiting for a run's end, for clients that want one whole response.

A run's events for clients that poll instead of following.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import Struct, field
from starlette.requests import Request

from holdfast import events as e
from holdfast.api.runs import RunEvents
from holdfast.codec import numbered
from holdfast.folds.asks import ask_event
from holdfast.folds.rows import RunRow, run_of
from holdfast.folds.run import Tally
from holdfast.folds.session_fold import RunFold
from holdfast.interfaces.journal import Journal, Record
from holdfast.racing import race
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem
from holdfast.server.sessions.exports import ANSWER_BYTES_MAX, with_events
from holdfast.server.streams.shared_frames import FrameGone, FrameReader, SharedFrames

READ_AT_ONCE = 64
# The openai package retries requests with such a status, unless it's told not to.
NO_RETRY = {"X-Should-Retry": "false"}


class ResponseSpan(Struct, frozen=True):
    """The part of a run in one response: all of it, or up to client tool calls."""

    run: RunFold
    client_ask: e.ClientToolsAsked | None = None
    person_ask: e.PersonAsked | None = None  # where a client gets this instead of an answer
    used: Tally = field(default_factory=Tally)


async def wait_for(
    deps: RouteDeps,
    row: RunRow,
    request: Request,
    *,
    after: int = 0,
    stops_at_asks: bool = False,
    on_left: Callable[[], None] | None = None,
) -> ResponseSpan:
    """Wait until the run has ended, or waits for its client again; `after` is the seq of the last such wait.

    With `stops_at_asks`, it's enough that the run waits for a person.

    The wait also ends when the client disconnects or the server shuts down.
    `on_left` is called when the wait is over for any reason.
    """
    ending = asyncio.ensure_future(_ended(deps, row, after=after, stops_at_asks=stops_at_asks))
    leaving = asyncio.ensure_future(_left(request))
    closing = asyncio.ensure_future(deps.streams.until_end())
    try:
        await race(ending, leaving, closing)
    finally:
        if on_left is not None:
            on_left()
    if not ending.cancelled():
        return ending.result()
    # A retry without an idempotency key would start a second run while the first continues.
    again = {} if "idempotency-key" in request.headers else NO_RETRY
    raise Problem(
        503,
        "The server is shutting down; the run continues after the restart",
        code="shutting_down",
        headers={"Retry-After": "2", "X-Hermes-Run-Id": row.run_id, **again},
    )


async def result_so_far(deps: RouteDeps, row: RunRow, *, after: int) -> ResponseSpan:
    """Return the result of `wait_for`, if the log has it."""
    used, at = Tally(), max(after, row.first_seq - 1)
    while records := await deps.store.read(row.session_id, after=at, limit=READ_AT_ONCE):
        for event in (record.event for record in records if run_of(record.event) == row.run_id):
            if isinstance(event, e.Usage):
                used.add(event)
            elif isinstance(event, e.RunEnded | e.ClientToolsAsked):
                return await _span(deps, row, event, used)
        at = records[-1].seq
    return ResponseSpan(await deps.folds.run(row), used=used)


async def _span(
    deps: RouteDeps, row: RunRow, end: e.RunEnded | e.ClientToolsAsked, used: Tally
) -> ResponseSpan:
    current = await deps.store.run(row.run_id) or row
    asked = end if isinstance(end, e.ClientToolsAsked) else None
    return ResponseSpan(await deps.folds.run(current), asked, used=used)


async def wait_for_abandoned_run(deps: RouteDeps, run_id: str) -> None:
    """Wait until the run has ended, for longer than an abandoned run may live."""
    row = await deps.store.run(run_id)
    if row is None:
        return
    ending = asyncio.ensure_future(_run_ended(deps, row))
    closing = asyncio.ensure_future(deps.streams.until_end())
    await race(ending, closing, within_s=2 * deps.limits.disconnect_grace_s)
    for task in (ending, closing):
        if not task.cancelled():
            task.exception()  # the reader of the run's ending finds out what happened


async def _run_ended(deps: RouteDeps, row: RunRow) -> None:
    """Wait for the run's own end: a wait for its client, which `_ended` stops at, isn't one."""
    async for records in deps.store.follow(row.session_id, after=row.first_seq - 1, pace="seldom"):
        for event in (record.event for record in records):
            if isinstance(event, e.RunEnded) and event.run_id == row.run_id:
                return


async def _ended(
    deps: RouteDeps, row: RunRow, *, after: int = 0, stops_at_asks: bool = False
) -> ResponseSpan:
    used = Tally()
    async for records in deps.store.follow(
        row.session_id, after=max(after, row.first_seq - 1), pace="seldom"
    ):
        for event in (record.event for record in records if run_of(record.event) == row.run_id):
            if isinstance(event, e.Usage):
                used.add(event)
            elif isinstance(event, e.RunEnded | e.ClientToolsAsked):
                return await _span(deps, row, event, used)
            elif stops_at_asks and isinstance(asked := ask_event(event), e.PersonAsked):
                run = await deps.folds.run(row)
                if run.state.person_asks[asked.ask_id].state == "open":
                    return ResponseSpan(run, person_ask=asked, used=used)
    text = "The run's session was deleted, or the server is shutting down"
    raise Problem(503, text, code="shutting_down", headers=NO_RETRY)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


EVENTS_MAX = 1000

_encode = msgspec.json.Encoder().encode


class NativePoll:
    """The events of a run after a cursor, as they are journaled."""

    def __init__(self, row: RunRow, *, after: int) -> None:
        self._run_id = row.run_id
        self.at = max(row.first_seq - 1, after)

    def read(self, records: Sequence[Record]) -> list[tuple[int, bytes]]:
        """Return the client's frames of the next log records, with their seqs."""
        self.at = records[-1].seq
        return [
            (record.seq, numbered(record.seq, record.body))
            for record in records
            if run_of(record.event) == self._run_id
        ]


class HermesPoll:
    """The same as hermes clients know them."""

    def __init__(
        self,
        row: RunRow,
        frames: SharedFrames | None,
        *,
        after: int,
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._row = row
        self._names = names  # other names that the client has for some events
        self._reader = FrameReader(row, frames, after=after)

    @property
    def at(self) -> int:
        """The seq of the last record read."""
        return self._reader.at

    def read(self, records: Sequence[Record]) -> list[tuple[int, bytes]]:
        """Return the client's frames of the next log records, with their seqs."""
        try:
            read = self._reader.read(records)
        except FrameGone:
            self._reader = self._reader.behind(self._row)
            return []
        found: list[tuple[int, bytes]] = []
        for record, made in read:
            if made is not None:
                name = made.frame["event"]
                head = {"run_id": self._row.run_id, "event": name}
                head |= {"timestamp": made.at_ms / 1000, "seq": record.seq}
                named = {"event": self._names[name]} if name in self._names else {}
                found.append((record.seq, _encode(head | made.frame | named)))
        return found


async def polled_response(
    journal: Journal, row: RunRow, poll: NativePoll | HermesPoll, *, after: int
) -> bytes:
    """The next events after a cursor of the run, as many as fit, and the cursor after them."""
    events: list[bytes] = []
    size, cursor = 0, after
    is_full = False
    while not is_full and (records := await journal.read(row.session_id, after=poll.at, limit=READ_AT_ONCE)):
        for seq, event in poll.read(records):
            events.append(event)
            size, cursor = size + len(event), seq
            is_full = len(events) >= EVENTS_MAX or size >= ANSWER_BYTES_MAX
            if is_full:
                break
        if row.status == "ended" and poll.at >= row.last_seq:
            break
        # A log in memory is read without waiting, so this must yield.
        await asyncio.sleep(0)
    body = RunEvents(run_id=row.run_id, cursor=cursor, last_event_id=cursor, events=())
    return with_events(body, events)
