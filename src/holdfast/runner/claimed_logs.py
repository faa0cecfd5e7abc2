"""Keeps an owner for each log of a source, such as a trigger's, on one of the nodes.

This is for autonomous logs, such as triggers and channels, which log their intents and outcomes. Sessions
have the supervisor instead, which starts an owner only while there is a run.

Claims sessions without an owner, which a node released or left behind when it died.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

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
# Another node owns the log, or has to.
ELSEWHERE = (OwnedElsewhere, HomedElsewhere, MissingCapability, FenceLost)

LOOK_S = 2.0  # how often a node looks for logs that others made or left; not if it has the store for itself
RETRY_S = 1.0  # after the store, or the owner itself, failed
RETRY_S_MAX = 60.0

# The owner's work. It holds the fence, and appends with `append_run`. It returns when there is
# nothing to do before something is appended to the log, for example because it was deleted. It can be
# cancelled at any await: at the end, and when another node has taken over.
OwnLog: TypeAlias = Callable[[str, Fence], Awaitable[None]]


class ClaimedLogs:
    """One task for each log of a source that this node can claim; `run` works until it is cancelled.

    - At most one node owns a log. A log that is owned elsewhere is retried, so when a node ends or dies,
      another continues.
    - If this node loses what it owned, its owners are cancelled before any of them begins again.
    - An owner that raises begins again after a pause, which grows while it keeps failing.
    - When `run` is cancelled, the owners are cancelled first, and then their logs are released.
    """

    def __init__(self, store: Store, clock: Clock, *, source: str, own: OwnLog) -> None:
        self._store = store
        self._clock = clock
        self._source = source
        self._own = own
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._owned: set[str] = set()
        self._idle: set[str] = set()  # logs whose owner returned, and that nothing was appended to since
        self._pauses_s: dict[str, float] = {}  # how long to wait after the next failure
        self._wanted = asyncio.Event()

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
                if self._store.node.name:
                    tasks.create_task(self._watch_ownership(), name="watch who owns logs")
                while True:
                    self._wanted.clear()
                    await self._look()
                    await self._until_wanted()
        finally:
            await self._cancel_all("shutdown")

    async def _until_wanted(self) -> None:
        if not self._store.node.name:
            await self._wanted.wait()
            return
        wanted = asyncio.create_task(self._wanted.wait())
        await race(wanted, asyncio.create_task(self._clock.sleep_s(LOOK_S)))

    async def _look(self) -> None:
        """Start an owner for each log that has none here."""
        try:
            found = await self._store.logs(self._source)
        except JournalError as error:
            _log.info("logs of source %s can't be read yet: %s", self._source, error)
            await self._clock.sleep_s(RETRY_S)
            self._wanted.set()
            return
        for row in found:
            log_id = row.session_id
            if log_id not in self._tasks and log_id not in self._idle:
                task = asyncio.create_task(self._work(log_id), name=f"own {log_id}")
                self._tasks[log_id] = task
                task.add_done_callback(lambda _, log_id=log_id: self._ended(log_id))

    def _ended(self, log_id: str) -> None:
        del self._tasks[log_id]
        self._wanted.set()

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
            await self._release(log_id, fence)

    async def _release(self, log_id: str, fence: Fence) -> None:
        try:
            await self._store.release(log_id, fence)
        except JournalError as error:
            _log.info("%s stays with this node until its lease ends: %s", log_id, error)

    async def _watch_changes(self) -> None:
        async for changed in self._store.changes(of="automations"):
            self._idle.difference_update(changed)
            if any(one not in self._tasks for one in changed):
                self._wanted.set()

    async def _watch_ownership(self) -> None:
        async for changes in self._store.ownership():
            if "lost" in changes:
                await self._cancel_all("lost")
            self._wanted.set()

    async def _cancel_all(self, cause: str) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel(cause)
        if tasks:
            await wait_through_cancel(*tasks)


CLAIM_LOOK_S = 1.0  # how often to check without a notification
LEFT_S = 10.0  # how long a session is left alone whose run needs what this node lacks
AT_ONCE = 100


class Claims:
    """Looks for work whenever there may be some, and takes no more of it than there is room for."""

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

    @property
    def is_shared(self) -> bool:
        """Return whether other nodes can share the store; if not, there is nothing to claim."""
        return bool(self._store.node.name)

    async def run(self, *, lost: Callable[[], Awaitable[None]]) -> None:
        """Claim what is free; `lost` is called when this node no longer owns what it had."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(lost))
            while True:
                await self._claim()
                await self._clock.sleep_s(CLAIM_LOOK_S)

    async def _watch(self, lost: Callable[[], Awaitable[None]]) -> None:
        async for changes in self._store.ownership():
            if "lost" in changes:
                await lost()
            await self._claim()

    def leave_for_now(self, session_id: str) -> None:
        """Don't look at a session for a while: this node lacks what its run needs, or can't go on with it."""
        self._left_until_s[session_id] = self._clock.monotonic_s() + LEFT_S

    async def _claim(self) -> None:
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
