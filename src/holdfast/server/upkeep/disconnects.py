"""Stops runs whose readers have disconnected, after a grace period, if the run was only for them."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from holdfast.folds.rows import RunRow
from holdfast.interfaces.journal import TRANSIENT, OutcomeUnknown
from holdfast.server.deps import RouteDeps

_log = logging.getLogger(__name__)

AGAIN_S = 1.0  # when to retry a stop that couldn't be saved


class Disconnects:
    """Counts the readers of such runs; a reader who returns within the grace period keeps the run going."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps
        self._readers: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def read_by(
        self, row: RunRow, *, is_told_of_asks: bool = False, grace_s: float | None = None
    ) -> Callable[[], None]:
        """Count one more reader, and return a callback for its disconnect.

        A reader that gets requests disconnects while the run waits for a person, and returns with the answer.
        `grace_s` is for protocols that define how long a reader can be away.
        """
        grace_s = self._deps.limits.disconnect_grace_s if grace_s is None else grace_s
        self._readers[row.run_id] += 1

        def gone() -> None:
            self._readers[row.run_id] -= 1
            self._readers += Counter()  # drops entries that are down to zero
            task = asyncio.create_task(self._stop(row, is_told_of_asks, grace_s), name=_name(row.run_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return gone

    def lives_for_readers(self, run_id: str) -> bool:
        """Whether the run has a reader whose leaving ends it, or had one within the grace period."""
        return run_id in self._readers or any(task.get_name() == _name(run_id) for task in self._tasks)

    async def _stop(self, row: RunRow, is_told: bool, grace_s: float) -> None:  # noqa: FBT001
        current = await self._deps.store.run(row.run_id)
        if current is None or current.status == "ended" or await self._waits_for_others(current, is_told):
            return
        await self._deps.clock.sleep_s(grace_s)
        # A shutdown closes streams too; those readers return to the next server and must find the run.
        while (
            not self._readers[row.run_id]
            and not self._is_going
            and not await self._waits_for_others(current, is_told)
        ):
            try:
                await self._deps.inbox.stop(row.session_id, row.run_id, cause="client_gone")
            except (*TRANSIENT, OutcomeUnknown) as trouble:
                _log.warning(
                    "can't stop run %s, which its reader has left; trying again: %s", row.run_id, trouble
                )
                await self._deps.clock.sleep_s(AGAIN_S)
            else:
                return

    async def _waits_for_others(self, row: RunRow, is_told: bool) -> bool:  # noqa: FBT001
        """Whether its client has its answer so far, and comes back with results or after asking a person."""
        run = (await self._deps.folds.run(row)).state
        is_told = is_told or run.settings.no_questions
        return (is_told and run.status == "waiting_for_approval") or run.status == "waiting_for_client"

    @property
    def _is_going(self) -> bool:
        return self._deps.streams.is_ending or self._deps.agent.drain.closed

    async def close(self) -> None:
        """Stop waiting, for the shutdown; the runs continue with the next server."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


def _name(run_id: str) -> str:
    return f"hang up on {run_id}"
