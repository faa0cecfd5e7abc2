"""The writer: one task, one connection, and as many appends per statement as are waiting.

A connection can be lost in the middle of a statement. Then the writer connects again and raises its number in
the node's row, which waits for that statement or voids it. After that it looks whether the events are there,
and only then answers.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.features.postgres.connection import CONFLICTS, Connection, Database, is_lost, named
from holdfast.features.postgres.event_types import EventTypes
from holdfast.features.postgres.heads import Heads, Lookups
from holdfast.features.postgres.jobs import PendingAppend, PendingCall
from holdfast.features.postgres.lost_commits import NOTE, LostWrites, RecentCommits, Restoring
from holdfast.features.postgres.node import Membership, NodeRowGone
from holdfast.features.postgres.plan import AppendPlan, DeltaPlan, NotFresh, plan_deltas
from holdfast.features.postgres.queries import queries
from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.features.postgres.words import vectors
from holdfast.folds import rows
from holdfast.interfaces.journal import (
    FenceLost,
    JournalError,
    NodeNameTaken,
    OutcomeUnknown,
    StoreClosed,
    StoreOverloaded,
    StoreReadOnly,
)
from holdfast.journal.sqlite.threads import Threads

GROUP_BYTES_MAX = 16 * 1024 * 1024
LONG_TEXT_BYTES = 64 * 1024  # the words of a longer one are found outside the event loop
TRIES_TOGETHER = 2  # after this many, each append of a group is tried on its own
TRIES_OF_LOST = 3  # of an append whose connection is lost each time
TRIES_MAX = 50  # of one append that finds its seq taken each time
NEW_KEYS = 64

_log = logging.getLogger(__name__)


class WriterHooks(Struct, frozen=True):
    """The writer's callbacks into the store."""

    prepare: Callable[[Connection], Awaitable[None]]  # a new connection, before anything is written to it
    committed: Callable[[AppendPlan | DeltaPlan], None]  # after each statement, before its futures complete
    forget: Callable[[], None]  # other nodes may have written what this one has cached
    lost: Callable[[], None]  # the node's sessions may belong to others
    restored: Callable[[Restoring], None]  # commits that the database had lost were written again


class StatementWriter:
    """Writes jobs in the order in which they were submitted."""

    def __init__(
        self,
        database: Database,
        membership: Membership,
        hooks: WriterHooks,
        *,
        types: EventTypes,
        tuning: PostgresTuning,
    ) -> None:
        self._types = types
        self._database = database
        self._membership = membership
        self._hooks = hooks
        self._tuning = tuning
        self._queue: deque[PendingAppend | PendingCall] = deque()
        self._wanted = asyncio.Event()
        self._connection: Connection | None = None
        self._old_pid = 0  # the server process of the last connection, which may still be busy
        self._new_keys: list[int] = []
        self._threads = Threads(1, "holdfast-words")
        self._is_refusing = False
        self._started: Any = None  # when the server that we are connected to was started
        self._waiting_max = tuning.waiting_jobs_max
        self._loop = asyncio.get_running_loop()
        self.future = self._loop.create_future  # for a new job
        self.heads = Heads()
        self.recent = RecentCommits(tuning.remember_s)
        self.trouble: JournalError | None = StoreClosed("the store is not open yet")
        self.tried = asyncio.Event()  # the first attempt to connect was made
        self.decided = asyncio.Event()  # the store was writable, or never will be

    def submit(self, job: PendingAppend | PendingCall) -> asyncio.Future[Any]:
        """Submit a job; its future completes after its commit."""
        queue = self._queue
        if self.trouble is not None or self._is_refusing or len(queue) >= self._waiting_max:
            self._fail(job, self._refusal())
        else:
            if not queue:
                self._wanted.set()
            queue.append(job)
        return job.future

    def _refusal(self) -> JournalError:
        """Why nothing is accepted now."""
        if self._is_refusing:
            return StoreClosed("the store is closed")
        if self.trouble is not None:
            return self.trouble
        return StoreOverloaded(
            f"{self._waiting_max} writes are waiting for the database; try again in a moment"
        )

    def refuse(self) -> None:
        """Accept no more work; `run` returns when everything accepted is done."""
        self._is_refusing = True
        self._wanted.set()

    def check_connection(self) -> None:
        """Make the writer see whether it is still connected and still owns its row."""
        self._wanted.set()

    def insist(self) -> None:
        """Raise the error that keeps the store from being writable now, if there is one."""
        if self.trouble is not None:
            raise own_copy(self.trouble)

    async def run(self) -> None:
        """Write until `refuse` was called and nothing is left."""
        try:
            while not (self._is_refusing and (not self._queue or self.trouble is not None)):
                if self._connection is None or self._connection.is_closed or self._membership.is_lost:
                    await self._connect()
                elif self._queue:
                    await self._write_next(self._connection)
                else:
                    self._wanted.clear()
                    await self._wanted.wait()
            await self._leave()
        finally:
            self._end()
            await self._threads.close()

    async def _leave(self) -> None:
        try:
            if self._connection is not None and not self._connection.is_closed:
                await self._membership.leave(self._connection)
        except Exception as error:
            if not isinstance(named(error), JournalError):
                raise
            _log.warning("the node's row could not be removed; others take over in a few seconds: %s", error)

    def _end(self) -> None:
        self._drop_connection()
        self.trouble = self.trouble or StoreClosed("the store is closed")
        self._refuse_all(StoreClosed("the store is closed"))
        self.tried.set()
        self.decided.set()

    def _refuse_all(self, error: JournalError) -> None:
        while self._queue:
            job = self._queue.popleft()
            self._fail(job, _unknown(error) if isinstance(job, PendingCall) and job.was_sent else error)

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def _connect(self) -> None:
        """Connect, however long that takes; all waiting jobs are refused if it doesn't work at once."""
        pause_s = self._tuning.pause_first_s
        while True:
            try:
                await self._try_to_connect()
            except (FenceLost, StoreReadOnly) as error:
                if isinstance(error, NodeNameTaken) and not self._membership.incarnation:
                    self.trouble = error  # whoever opens the store is told, and it never becomes writable
                    self.refuse()
                else:
                    self._be_in_trouble(error)
                self.decided.set()
            except JournalError as error:
                self._be_in_trouble(error, then="; trying again until it works")
            else:
                break
            self.tried.set()
            if self._is_refusing:
                return
            await self._database.pause(pause_s)
            pause_s = min(2 * pause_s, self._tuning.pause_last_s)
        if self.trouble is not None:
            if self.decided.is_set():
                _log.warning("the database can be reached again")
            self.trouble = None
        self.tried.set()
        self.decided.set()

    async def _try_to_connect(self) -> None:
        self._drop_connection()
        connection = await self._database.connect("writer", query_s=self._tuning.write_s)
        had_lease = self._membership.incarnation != 0
        try:
            if self._old_pid:
                await connection.rows("terminate", pid=self._old_pid)
            await self._hooks.prepare(connection)
            self._started = await connection.value("server_started")
            is_same = await self._membership.join(connection)
            try:
                await self._types.insist(connection)
            except StoreReadOnly:
                await self._membership.leave(connection)
                self._membership.is_lost = True
                raise
            self.heads.clear()
            if had_lease:
                await self._restore(connection)
        except BaseException as error:
            connection.terminate()
            if isinstance(error, Exception):
                raise named(error) from error
            raise
        connection.on_end(self.check_connection)
        self._connection = connection
        self._old_pid = connection.pid
        if had_lease:
            self._hooks.forget()
            if not is_same:
                self._hooks.lost()

    @property
    def _fence(self) -> dict[str, Any]:
        """The parameters by which an append shows that this node may write."""
        member = self._membership
        return {"incarnation": member.incarnation, "writer": member.writer, "started": self._started}

    async def _restore(self, connection: Connection) -> None:
        """Write again what the database confirmed and no longer has, and raise an alarm."""
        missing = await self.recent.missing(connection)
        if not missing:
            return
        restoring, restored = Restoring(connection, self.heads, self._fence), 0
        for one in missing:
            written = await restoring.write(one)
            if written is not None:
                self.recent.replace(one, written)
                restored += 1
        await restoring.renew_epochs()
        ((now_ms,),) = await connection.fetch("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
        moved = tuple(sorted(restoring.moved))
        found = LostWrites(now_ms, self._membership.name, len(missing), restored, moved)
        bindings = {"key": NOTE, "value": msgspec.json.encode(found)}
        await connection.execute(queries()["put_note"], bindings)
        _log.critical(
            "%s. Readers of %d sessions begin anew. Check synchronous_commit, fsync and the standbys: "
            "run holdfast doctor",
            found.text,
            len(moved),
        )
        self.heads.clear()
        self._hooks.restored(restoring)

    def _be_in_trouble(self, error: JournalError, *, then: str = "") -> None:
        if self.trouble is None or str(self.trouble) != str(error):
            _log.error("%s%s", error, then)
        self.trouble = error
        self._refuse_all(error)

    async def _write_next(self, connection: Connection) -> None:
        if isinstance(self._queue[0], PendingCall):
            await self._call(connection, self._queue[0])
            return
        # After all tasks that are ready now: this makes one statement of what they submit.
        await asyncio.sleep(0)
        group: deque[PendingAppend] = deque()
        queue, size, jobs_max = self._queue, 0, self._tuning.group_jobs_max
        for job in queue:
            if isinstance(job, PendingCall) or size >= GROUP_BYTES_MAX or len(group) >= jobs_max:
                break
            group.append(job)
            size += job.bytes
        for _ in group:
            queue.popleft()
        await self._append(group)

    async def _call(self, connection: Connection, job: PendingCall) -> None:
        """Do another write; if the connection is lost, it stays the next one to be done."""
        try:
            result = await job.work(connection)
        except NodeRowGone:
            self._membership.is_lost = True
            return
        except Exception as error:  # noqa: BLE001  # the job gets its error
            if is_lost(error):
                job.was_sent = True
                self._drop_lost(error)
                return
            self._queue.popleft()
            self._fail(job, named(error))
            return
        self._queue.popleft()
        if job.then is not None:
            job.then(result)
        if not job.future.done():
            job.future.set_result(result)

    def _drop_lost(self, error: BaseException) -> None:
        _log.warning("the connection to the database was lost: %s", error or type(error).__name__)
        if self._connection is not None:
            self._connection.terminate()

    async def _append(self, left: deque[PendingAppend]) -> None:
        """Write all appends of a group, together or, if one of them is in the way, each on its own."""
        tries = 0
        while left:
            step = _Step([left[0]] if tries >= TRIES_TOGETHER else list(left))
            try:
                await self._try(step)
            except Exception as error:  # noqa: BLE001  # every job gets its error
                self.heads.forget(job.session_id for job in step.jobs)
                tries = await self._recover(step, error, left, tries)
            else:
                tries = TRIES_TOGETHER if tries >= TRIES_TOGETHER else 0
                self._deliver(step, left)
        self.heads.trim()

    async def _recover(self, step: "_Step", error: Exception, left: deque[PendingAppend], tries: int) -> int:
        """Deal with a failed step; return how often the first job that is left has been tried."""
        if isinstance(error, (*CONFLICTS, _NothingWritten)):
            failure, tries_max = StoreOverloaded("the session is written to from many sides"), TRIES_MAX
        elif is_lost(error):
            if await self._settle(step, error, left):
                return TRIES_TOGETHER
            failure, tries_max = named(error), TRIES_OF_LOST
            tries = max(tries, TRIES_TOGETHER - 1)
        elif self.trouble is not None:
            self._give_up(step, self.trouble, left)
            return 0
        else:
            # Something is wrong with one of them, and the others must not be affected.
            failure, tries_max = named(error), 0
            if len(step.jobs) > 1:
                return TRIES_TOGETHER
        tries += 1
        if tries > tries_max and left:
            self._fail(left.popleft(), failure)
            return TRIES_TOGETHER
        return tries

    async def _try(self, step: "_Step") -> None:
        """Plan and write as many of the step's jobs as can be decided now, at least one."""
        connection = self._connection
        if connection is None or connection.is_closed or self._membership.is_lost:
            await self._reconnect()
            connection = self._connection
            assert connection is not None, "it has just been opened"
        incarnation = self._membership.incarnation
        deltas = plan_deltas(self.heads, step.jobs, incarnation=incarnation)
        if deltas is None:
            lookups = await self.heads.look(connection, step.jobs)
            deltas = plan_deltas(self.heads, step.jobs, incarnation=incarnation)
            if deltas is None:
                await self._try_with_rows(connection, step, lookups)
                return
        step.plan, step.results = deltas, deltas.results
        await self._execute(connection, deltas)

    async def _try_with_rows(self, connection: Connection, step: "_Step", lookups: Lookups) -> None:
        if len(self._new_keys) < len(step.jobs):
            found = await connection.rows("session_keys", count=max(len(step.jobs), NEW_KEYS))
            self._new_keys += [row[0] for row in found]
        step.plan = plan = AppendPlan(
            self.heads, lookups, incarnation=self._membership.incarnation, new_keys=self._new_keys
        )
        results = step.results = list[Any]()
        for job in step.jobs:
            if job.bytes > LONG_TEXT_BYTES and job.vectors is None:
                job.vectors = await self._threads.run(_vectors, job)
            if job.new_types and (refusal := await self._types.refusal(connection, job.new_types)):
                results.append(refusal)
                continue
            try:
                results.append(plan.add(job))
            except NotFresh:
                self.heads.forget([job.session_id])
                break
            except JournalError as error:
                results.append(error)
        if plan.jobs:
            await self._execute(connection, plan)
        elif not results:
            await self._try_again_fresh(step)

    async def _try_again_fresh(self, step: "_Step") -> None:
        """The first job needs a fresh look at its log, which was just forgotten."""
        step.jobs = step.jobs[:1]
        await self._try(step)

    async def _execute(self, connection: Connection, plan: AppendPlan | DeltaPlan) -> None:
        if plan.used_up_keys:
            now_ms = plan.jobs[0][0].records[0].event.at_ms
            bindings = {"keys": plan.used_up_keys, "now_ms": now_ms}
            await connection.execute(queries()["expire_once"], bindings)
        query, bindings = plan.statement()
        plan.was_sent = True
        timeout_s = self._tuning.write_s + plan.bytes / self._tuning.write_bytes_per_s
        count = await connection.execute(query, bindings | self._fence, timeout_s=timeout_s)
        if count:
            return
        plan.was_sent = False
        (why,) = await connection.rows("why_nothing", **self._fence)
        if not why["is_alive"]:
            self._membership.is_lost = True
        if not why["is_same_server"]:
            connection.terminate()
        raise _NothingWritten

    async def _reconnect(self) -> None:
        try:
            await self._try_to_connect()
        except JournalError as error:
            self._be_in_trouble(error)
            raise

    async def _settle(self, step: "_Step", error: BaseException, left: deque[PendingAppend]) -> bool:
        """Find out what became of a statement whose connection was lost; return whether all is answered.

        If that takes too long, everybody who waits for it is told so.
        """
        self._drop_lost(error)
        deadline_s = self._loop.time() + self._tuning.resolve_s
        while True:
            try:
                await self._try_to_connect()
                is_written = await self._is_written(step)
                break
            except Exception as worse:
                failure = named(worse)
                if not isinstance(failure, JournalError):
                    raise
                self._be_in_trouble(failure)
                if self._loop.time() >= deadline_s or isinstance(failure, FenceLost):
                    self._give_up(step, failure, left)
                    return True
            await self._database.pause(self._tuning.pause_first_s)
        self.trouble = None
        if is_written:
            self._deliver(step, left)
        return is_written

    async def _is_written(self, step: "_Step") -> bool:
        if step.plan is None or not step.plan.was_sent:
            return False
        assert self._connection is not None, "it has just been opened"
        return bool(await self._connection.value("count_written", **step.plan.firsts()))

    def _give_up(self, step: "_Step", failure: JournalError, left: deque[PendingAppend]) -> None:
        sent = {id(job) for job, _ in step.plan.jobs} if step.plan and step.plan.was_sent else set[int]()
        for job in left:
            self._fail(job, _unknown(failure) if id(job) in sent else failure)
        left.clear()

    def _deliver(self, step: "_Step", left: deque[PendingAppend]) -> None:
        """Publish what a statement wrote, then complete its futures."""
        if step.plan is not None and step.plan.jobs:
            self.recent.add(step.plan, now_s=self._loop.time())
            try:
                self._hooks.committed(step.plan)
            except Exception:  # noqa: BLE001  # it is in the database, whatever goes wrong here
                _log.exception("saved events couldn't be published; readers take them from the database")
                self._hooks.forget()
        for result in step.results:
            future = left.popleft().future
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(own_copy(result))
            else:
                future.set_result(result)

    @staticmethod
    def _fail(job: PendingAppend | PendingCall, error: Exception) -> None:
        if not job.future.done():
            job.future.set_exception(own_copy(error))


class _NothingWritten(Exception):
    """The node's row, a session or its ownership was not as expected, so another look is needed."""


class _Step:
    """Some jobs that are tried together, and what became of those at the front."""

    def __init__(self, jobs: list[PendingAppend]) -> None:
        self.jobs = jobs
        self.results: Sequence[Any] = ()
        self.plan: AppendPlan | DeltaPlan | None = None


def _vectors(job: PendingAppend) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for nth, record in enumerate(job.records):
        if type(record.event) not in rows.QUIET and (text := rows.search_text(1, record.event)) is not None:
            found[nth] = vectors(text.text)
    return found


def _unknown(failure: JournalError) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the connection to the database was lost during a write ({failure}): it may or may not have been "
        "made; repeat it with the same idempotency key"
    )


def own_copy(error: Exception) -> Exception:
    """A copy, because raising an exception changes its traceback: no two tasks may share one."""
    if not isinstance(error, JournalError):
        return error
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
