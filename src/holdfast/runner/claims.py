"""Owning logs: a node claims free ones, runs an owner for each, and cancels all if it loses its claims.

Sessions have an owner only while there is a run. The supervisor starts it, and `SessionClaims` finds what
other nodes left. Autonomous logs, such as triggers and channels, which log their intents and outcomes, always
have an owner on one node: `ClaimedLogs`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, TypeAlias

from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import (
    Fence,
    FenceLost,
    HomedElsewhere,
    JournalError,
    MissingCapability,
    OwnedElsewhere,
    Store,
)
from holdfast.journal.retrying_append import PASSING
from holdfast.racing import is_about, race, wait_through_cancel

_log = logging.getLogger(__name__)

LOOK_S = 2.0  # how often a node looks for logs that others made or left; not if it has the store for itself
SESSIONS_LOOK_S = 1.0  # the same for sessions with something to run
RETRY_S = 1.0  # after the store, or the owner itself, failed
RETRY_S_MAX = 60.0
LEFT_S = 10.0  # how long a session is left alone whose run needs what this node lacks
AT_ONCE = 100
# Another node owns the log, or has to.
ELSEWHERE = (OwnedElsewhere, HomedElsewhere, MissingCapability, FenceLost)

# The owner's work. It holds the fence, and appends with `append_run`. It returns when there is
# nothing to do before something is appended to the log, for example because it was deleted. It can be
# cancelled at any await: at the end, and when another node has taken over.
OwnLog: TypeAlias = Callable[[str, Fence], Awaitable[None]]


async def release(store: Store, log_id: str, fence: Fence) -> None:
    """Give up a log, as far as the store can be reached."""
    try:
        await store.release(log_id, fence)
    except JournalError as error:
        _log.info("%s stays with this node until its lease ends: %s", log_id, error)


class LogOwners:
    """The tasks that own logs on this node, at most one for each log.

    - `run` calls `look`, which starts owners, at first, after `look_again`, and when another node may have
      left a log.
    - If the node loses what it had claimed, its owners are cancelled before any of them begins again.
    - `ended` is called with a log and its task.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        look: Callable[[], Awaitable[None]],
        ended: Callable[[str, asyncio.Task[None]], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._look = look
        self._ended = ended
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._wanted = asyncio.Event()

    @property
    def is_shared(self) -> bool:
        """Return whether other nodes can share the store."""
        return bool(self._store.node.name)

    def __contains__(self, log_id: str) -> bool:
        return log_id in self._tasks

    def start(self, log_id: str, work: Coroutine[Any, Any, None]) -> None:
        """Start the owner of a log that has none."""
        task = asyncio.create_task(work, name=f"own {log_id}")
        self._tasks[log_id] = task
        task.add_done_callback(lambda done: self._has_ended(log_id, done))

    def _has_ended(self, log_id: str, task: asyncio.Task[None]) -> None:
        del self._tasks[log_id]
        self._ended(log_id, task)

    def look_again(self) -> None:
        """Look for logs without an owner now."""
        self._wanted.set()

    async def run(self, *, every_s: float) -> None:
        """Look for logs until this is cancelled; at least so often if the store is shared."""
        async with asyncio.TaskGroup() as tasks:
            if self.is_shared:
                tasks.create_task(self._watch_ownership(), name="watch who owns logs")
            while True:
                self._wanted.clear()
                await self._look()
                await self._until_wanted(every_s)

    async def _until_wanted(self, every_s: float) -> None:
        if not self.is_shared:
            await self._wanted.wait()
            return
        wanted = asyncio.create_task(self._wanted.wait())
        await race(wanted, asyncio.create_task(self._clock.sleep_s(every_s)))

    async def _watch_ownership(self) -> None:
        async for changes in self._store.ownership():
            if "lost" in changes:
                if self._tasks:
                    _log.warning("this node lost its logs, so the owners of %d stop here", len(self._tasks))
                await self.cancel_all("lost")
            self._wanted.set()

    def cancel(self, log_id: str, cause: str) -> None:
        """Cancel an owner."""
        self._tasks[log_id].cancel(cause)

    async def cancel_all(self, cause: str) -> None:
        """Cancel all owners and wait for them."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel(cause)
        if tasks:
            await wait_through_cancel(*tasks)


class SessionClaims:
    """Finds sessions without an owner, which a node released or left behind when it died."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        room: Callable[[], int],
        busy: Callable[[], Collection[str]],
        wake: Callable[[str], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._room = room
        self._busy = busy
        self._wake = wake
        self._left_until_s: dict[str, float] = {}

    def leave_for_now(self, session_id: str) -> None:
        """Don't look at a session for a while: this node lacks what its run needs, or can't go on with it."""
        self._left_until_s[session_id] = self._clock.monotonic_s() + LEFT_S

    async def look(self) -> None:
        """Wake sessions that are free, as many as there is room for."""
        if (room := min(self._room(), AT_ONCE)) <= 0:
            return
        try:
            now_s = self._clock.monotonic_s()
            left = {id_: until_s for id_, until_s in self._left_until_s.items() if until_s > now_s}
            self._left_until_s = left
            found = await self._store.claimable(limit=room + len(left), busy=self._busy())
            for session_id in [id_ for id_ in found if id_ not in left][:room]:
                self._wake(session_id)
        except JournalError as error:
            _log.info("sessions that nobody owns can't be claimed yet: %s", error)


class ClaimedLogs:
    """One owner for each log of a source that this node can claim; `run` works until it is cancelled.

    - At most one node owns a log. A log that is owned elsewhere is retried, so when a node ends or dies,
      another continues.
    - An owner that raises begins again after a pause, which grows while it keeps failing.
    - When `run` is cancelled, the owners are cancelled first, and then their logs are released.
    """

    def __init__(self, store: Store, clock: Clock, *, source: str, own: OwnLog) -> None:
        self._store = store
        self._clock = clock
        self._source = source
        self._own = own
        self._owners = LogOwners(store, clock, look=self._look, ended=self._ended)
        self._owned: set[str] = set()
        self._idle: set[str] = set()  # logs whose owner returned, and that nothing was appended to since
        self._pauses_s: dict[str, float] = {}  # how long to wait after the next failure

    @property
    def owned(self) -> frozenset[str]:
        """The logs that this node owns now."""
        return frozenset(self._owned)

    async def run(self) -> None:
        """Own what can be claimed, until it is cancelled or can't see what changes."""
        await self._store.writable()
        self._idle.clear()  # appends since then weren't watched
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch_changes(), name=f"watch logs of {self._source}")
                await self._owners.run(every_s=LOOK_S)
        finally:
            await self._owners.cancel_all("shutdown")

    async def _look(self) -> None:
        """Start an owner for each log that has none here."""
        try:
            found = await self._store.logs(self._source)
        except JournalError as error:
            _log.info("logs of source %s can't be read yet: %s", self._source, error)
            await self._clock.sleep_s(RETRY_S)
            self._owners.look_again()
            return
        for row in found:
            log_id = row.session_id
            if log_id not in self._owners and log_id not in self._idle:
                self._owners.start(log_id, self._work(log_id))

    def _ended(self, log_id: str, task: asyncio.Task[None]) -> None:
        del log_id, task
        self._owners.look_again()

    async def _work(self, log_id: str) -> None:
        try:
            await self._claim_and_own(log_id)
        except Exception as error:  # noqa: BLE001  # whatever it is, the others go on, and this one later
            await self._clock.sleep_s(self._pause_after(log_id, error))
        else:
            self._pauses_s.pop(log_id, None)

    def _pause_after(self, log_id: str, error: Exception) -> float:
        """Return how long to wait before retrying the log."""
        if is_about(error, ELSEWHERE):
            return LOOK_S
        if is_about(error, PASSING):
            _log.warning("the owner of %s waits for the store: %s", log_id, error)
            return RETRY_S
        pause_s = self._pauses_s.get(log_id, RETRY_S)
        self._pauses_s[log_id] = min(2 * pause_s, RETRY_S_MAX)
        _log.error("the owner of %s failed and begins again in %g s", log_id, pause_s, exc_info=error)
        return pause_s

    async def _claim_and_own(self, log_id: str) -> None:
        fence = await self._store.claim(log_id)
        self._owned.add(log_id)
        try:
            # Later appends wake it again if it returns without having seen them.
            self._idle.add(log_id)
            await self._own(log_id, fence)
        except BaseException:
            self._idle.discard(log_id)
            raise
        finally:
            self._owned.discard(log_id)
            await release(self._store, log_id, fence)

    async def _watch_changes(self) -> None:
        async for changed in self._store.changes(of="automations"):
            self._idle.difference_update(changed)
            if any(one not in self._owners for one in changed):
                self._owners.look_again()
