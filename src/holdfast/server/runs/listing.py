"""Lists of runs: which rows match a status, and a preview of each run."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypedDict, get_args

from holdfast import events as e
from holdfast.folds.rows import RunRow, RunStatus
from holdfast.interfaces.journal import Record, StoreDamaged
from holdfast.server.runs.run_report import STATUSES
from holdfast.values import OutcomeKind

PREVIEW_CHARS_MAX = 80
HOPS_MAX = 8  # how many retries to follow back to the original message
NEAR = 2  # a message and its run are written together
FAR = 500  # a message that came too late for another run is further away


class Log(Protocol):
    """Reads the records of sessions."""

    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        """Records after a seq, in order."""
        ...

    async def read_each(
        self, places: Sequence[tuple[str, int]], *, limit: int
    ) -> Sequence[Sequence[Record] | StoreDamaged]:
        """The same for many places at once."""
        ...


async def preview_of(log: Log, row: RunRow) -> str:
    """The beginning of the message in one line; empty if it has no text, isn't found or can't be read."""
    return (await previews_of(log, [row]))[row.run_id]


async def previews_of(log: Log, rows: Sequence[RunRow]) -> Mapping[str, str]:
    """The same for a page of runs, by id; one read of the store finds nearly all of them."""
    places = [(row.session_id, _before(row.first_seq)) for row in rows]
    found = await log.read_each(places, limit=NEAR)
    return {row.run_id: await _preview(log, row, near) for row, near in zip(rows, found, strict=True)}


async def refusals_of(log: Log, rows: Sequence[RunRow]) -> Mapping[str, int]:
    """Return the number of refused actions of each ended run, from its last event."""
    ended = [row for row in rows if row.status == "ended"]
    found = await log.read_each([(row.session_id, row.last_seq - 1) for row in ended], limit=1)
    return {row.run_id: _refused(near) for row, near in zip(ended, found, strict=True)}


def _refused(near: Sequence[Record] | StoreDamaged) -> int:
    last = None if isinstance(near, StoreDamaged) or not near else near[0].event
    return last.refused_actions if isinstance(last, e.RunEnded) else 0


async def _preview(log: Log, row: RunRow, near: Sequence[Record] | StoreDamaged) -> str:
    try:
        return "" if isinstance(near, StoreDamaged) else await _found(log, row, near)
    except StoreDamaged:
        return ""  # a list doesn't report it; reading the session does


async def _found(log: Log, row: RunRow, near: Sequence[Record]) -> str:
    seq = row.first_seq
    for _ in range(HOPS_MAX):
        queued = next((record.event for record in near if record.seq == seq), None)
        if not isinstance(queued, e.RunQueued):
            return ""  # the session was purged just now
        before = near[0].event
        if isinstance(before, e.MessageAccepted) and before.message_id == queued.message_id:
            return _line(before)
        if not isinstance(before, e.SessionRewound) or before.to_seq >= seq:
            return await _further_back(log, row, seq=seq, message_id=queued.message_id)
        seq = before.to_seq
        near = await log.read(row.session_id, after=_before(seq), limit=NEAR)
        if not any(record.seq == seq and _queues(record, queued.message_id) for record in near):
            # It waited behind another run, and the session was rewound to the end of that one.
            return await _further_back(log, row, seq=seq, message_id=queued.message_id)
    return ""


def _queues(record: Record, message_id: str) -> bool:
    return isinstance(record.event, e.RunQueued) and record.event.message_id == message_id


def _before(seq: int) -> int:
    return max(0, seq - NEAR)


async def _further_back(log: Log, row: RunRow, *, seq: int, message_id: str) -> str:
    records = await log.read(row.session_id, after=max(0, seq - FAR), limit=FAR)
    events = (record.event for record in records)
    said = (event for event in events if isinstance(event, e.MessageAccepted))
    return next((_line(event) for event in said if event.message_id == message_id), "")


def _line(message: e.MessageAccepted) -> str:
    words = " ".join(message.text[: PREVIEW_CHARS_MAX * 4].split())
    if not words:
        return "(attachments)" if message.parts else ""
    return words if len(words) <= PREVIEW_CHARS_MAX else words[: PREVIEW_CHARS_MAX - 1] + "…"


class RunFilter(TypedDict, total=False):
    """The part of a RunQuery about the runs' state."""

    status: RunStatus
    outcomes: tuple[OutcomeKind, ...]
    asking: Literal["person", "client", "nobody"]


def runs_with(status: str) -> RunFilter | None:
    """The state of rows with this status; None if no run can have it."""
    match status:
        case "":
            return {}
        case "queued" | "stopping" | "ended":
            return {"status": status}
        case "running":
            return {"status": "running", "asking": "nobody"}
        case "waiting_for_approval":
            return {"status": "running", "asking": "person"}
        case "waiting_for_client":
            return {"status": "running", "asking": "client"}
        case _:
            outcomes: tuple[OutcomeKind, ...] = get_args(OutcomeKind)
            wanted: tuple[OutcomeKind, ...] = tuple(one for one in outcomes if STATUSES[one] == status)
            return RunFilter(status="ended", outcomes=wanted) if wanted else None
