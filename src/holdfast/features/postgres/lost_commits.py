"""Appends lost in a failover: confirmed and published, but no longer in the database.

That happens if the database fails over to a standby that followed asynchronously, or loses its last commits
in a crash. A node remembers what it wrote recently and writes it again. This is best effort: what nobody
remembers is lost, so `synchronous_commit` and synchronous standbys stay necessary.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from holdfast.codec import encode
from holdfast.events import SessionCreated
from holdfast.features.postgres.connection import CONFLICTS, Connection
from holdfast.features.postgres.heads import Heads
from holdfast.features.postgres.jobs import PendingAppend
from holdfast.features.postgres.plan import AppendPlan, DeltaPlan
from holdfast.features.postgres.queries import queries
from holdfast.interfaces.ids import new_epoch
from holdfast.interfaces.journal import Appended, JournalError, Record, UnknownSession
from holdfast.journal.follow import RECORD_BYTES

BYTES_MAX = 32 * 1024 * 1024
LOOKED_UP_AT_ONCE = 5_000
TRIES_MAX = 10

Written = tuple[PendingAppend, Appended]

NOTE = "store/lost-writes"
SHOWN_MS = 24 * 3_600_000


class _Commit(NamedTuple):
    at_s: float
    jobs: list[Written]
    bytes: int


class LostWrites(msgspec.Struct, frozen=True):
    """A node's latest losses: the number of lost appends, and of those that it wrote again."""

    at_ms: int
    node: str
    missing: int
    restored: int
    moved: tuple[str, ...] = ()  # sessions whose events have other seqs now, so readers begin anew

    @property
    def text(self) -> str:
        """Describe the loss for people."""
        return (
            f"the database lost {self.missing} writes that it had confirmed; node {self.node} wrote "
            f"{self.restored} of them again"
        )


def loss_in(note: bytes | None, *, now_ms: int) -> LostWrites | None:
    """The loss that a note tells of, if it was within the last day."""
    found = msgspec.json.decode(note, type=LostWrites) if note else None
    return found if found is not None and now_ms - found.at_ms < SHOWN_MS else None


class RecentCommits:
    """This node's recent writes."""

    def __init__(self, keep_s: float) -> None:
        self._keep_s = keep_s
        self._commits: deque[_Commit] = deque()
        self._bytes = 0

    def add(self, plan: AppendPlan | DeltaPlan, *, now_s: float) -> None:
        """Remember a commit, and forget those that are old."""
        size = plan.bytes + RECORD_BYTES * plan.count
        self._commits.append(_Commit(now_s, plan.jobs, size))
        self._bytes += size
        while self._bytes > BYTES_MAX or self._commits[0].at_s < now_s - self._keep_s:
            self._bytes -= self._commits.popleft().bytes
            if not self._commits:
                break

    def forget(self, session_id: str) -> None:
        """Forget a session that is gone for good."""
        for commit in self._commits:
            commit.jobs[:] = [one for one in commit.jobs if one[0].session_id != session_id]

    async def missing(self, connection: Connection) -> list[Written]:
        """Return the writes that are no longer in the database, in their original order."""
        written = [one for commit in self._commits for one in commit.jobs]
        # What is lost is always the end of what was written. So one look is enough if nothing is.
        if not written or await _found(connection, written[-1:]):
            return []
        found: set[int] = set()
        for begin in range(0, len(written), LOOKED_UP_AT_ONCE):
            some = await _found(connection, written[begin : begin + LOOKED_UP_AT_ONCE])
            found.update(begin + nth for nth in some)
        return [one for nth, one in enumerate(written) if nth not in found]

    def replace(self, old: Written, new: Written) -> None:
        """Remember where an append is now."""
        for commit in self._commits:
            commit.jobs[:] = [new if one is old else one for one in commit.jobs]


async def _found(connection: Connection, written: Sequence[Written]) -> list[int]:
    rows = await connection.rows(
        "find_written",
        session_ids=[job.session_id for job, _ in written],
        seqs=[appended.first_seq for _, appended in written],
        crcs=[crc32(job.records[0].body) for job, _ in written],
    )
    return [row["nth"] - 1 for row in rows]


class Restoring:
    """Writes again what is missing, each append under its own seqs if they are still free."""

    def __init__(self, connection: Connection, heads: Heads, node: Mapping[str, Any]) -> None:
        self._connection = connection
        self._heads = heads
        self._node = dict(node)  # the parameters of the node's fence
        self.moved: set[str] = set()
        self.grown: dict[int, int] = {}  # the last seq of each log, by key

    async def write(self, missing: Written) -> Written | None:
        """Write one append again; None if that isn't possible."""
        for _ in range(TRIES_MAX):
            try:
                return await self._try(missing)
            except (*CONFLICTS, _NothingInserted):
                self._heads.forget([missing[0].session_id])
            except JournalError:
                return None  # its session is gone, or others went on with it
        return None

    async def _try(self, missing: Written) -> Written | None:
        lost, published = missing
        job = _again(lost)
        lookups = await self._heads.look(self._connection, [job])
        if lost.fence is not None and await self._is_owned_elsewhere(lost.session_id):
            return None
        ((key,),) = await self._connection.rows("session_keys", count=1)
        plan = AppendPlan(self._heads, lookups, incarnation=self._node["incarnation"], new_keys=[key])
        appended = plan.add(job)
        if not isinstance(appended, Appended):
            return None
        query, bindings = plan.statement()
        if not await self._connection.execute(query, bindings | self._node):
            raise _NothingInserted
        self.grown |= plan.tops()
        if appended != published:
            self.moved.add(lost.session_id)
        return job, appended

    async def _is_owned_elsewhere(self, session_id: str) -> bool:
        """Whether another node goes on with the session, so that a run's old events no longer fit."""
        rows = await self._connection.rows("owner", session_id=session_id)
        return bool(rows) and rows[0]["name"] is not None and rows[0]["owner"] != self._node["incarnation"]

    async def renew_epochs(self) -> None:
        """Make readers of logs whose events have moved begin anew: what they hold has other seqs now."""
        for session_id in self.moved:
            for row in await self._connection.rows("read_events", session_id=session_id, after=0, limit=1):
                first = Record.verified(session_id, row["seq"], crc=row["crc"], body=row["body"]).event
                if not isinstance(first, SessionCreated):
                    raise UnknownSession(f"the log of session {session_id!r} has no beginning")
                renewed = msgspec.structs.replace(first, epoch=new_epoch())
                body = encode(renewed)
                bindings = {"epoch": renewed.epoch, "crc": crc32(body), "body": body}
                await self._connection.execute(
                    queries()["renew_epoch"], bindings | {"session_id": session_id}
                )


class _NothingInserted(Exception):
    """The node's row or the session was not as expected, so another look is needed."""


def _again(lost: PendingAppend) -> PendingAppend:
    """The same append without conditions and fence; readers hold its records, so it has copies."""
    records = [Record(one.session_id, one.seq, one.body, one.decoded) for one in lost.records]
    return PendingAppend(
        future=lost.future,
        session_id=lost.session_id,
        records=records,
        bytes=lost.bytes,
        fence=None,
        when=(),
        idempotency_key=lost.idempotency_key,
        vectors=lost.vectors,
    )
