"""A background task that forgets what this server alone keeps of sessions that another one has purged."""

import logging
from collections.abc import Sequence

from holdfast.interfaces.journal import JournalError
from holdfast.server.deps import RouteDeps
from holdfast.server.upkeep.purging import Purges
from holdfast.tools.offload import offload

_log = logging.getLogger(__name__)

GATHER_S = 0.5


class ForeignPurges:
    """Snapshots for undo are on the server that took them, and folds and read marks in each one's memory."""

    def __init__(self, deps: RouteDeps, purges: Purges) -> None:
        self._deps = deps
        self._purges = purges

    async def run(self) -> None:
        """Forget what is gone now, and then what goes; returns at once if no other server has the store."""
        store = self._deps.store
        if not store.node.name:
            return
        changes = store.changes()
        await self._tried_at_start()
        async for ids in changes:
            try:
                for session_id in await self._kept(ids):
                    if await store.session(session_id) is None:
                        await self._forget(session_id)
            except JournalError as error:
                _log.info("what other servers purged is forgotten at the next start: %s", error)
            await self._deps.clock.sleep_s(GATHER_S)

    async def _kept(self, session_ids: Sequence[str]) -> list[str]:
        """Return the sessions that this server has data of but doesn't run."""
        supervisor, snapshots = self._deps.supervisor, self._deps.agent.snapshots
        idle = [id_ for id_ in session_ids if not supervisor.is_busy(id_)]

        def kept() -> list[str]:
            return [id_ for id_ in idle if snapshots is not None and snapshots.store.has_session(id_)]

        found = await offload(kept)
        return [id_ for id_ in idle if id_ in found or supervisor.known_view(id_) is not None]

    async def _forget(self, session_id: str) -> None:
        deps = self._deps
        deps.folds.forget()
        deps.supervisor.forget(session_id)
        deps.marks.forget(session_id)
        if deps.agent.snapshots is not None:
            await deps.agent.snapshots.forget(session_id)
            self._purges.collect_soon()

    async def _tried_at_start(self) -> None:
        """Drop snapshots of sessions that were purged while this server was away."""
        snapshots, store = self._deps.agent.snapshots, self._deps.store
        if snapshots is None:
            return
        try:
            for mark, run_ids in (await offload(snapshots.store.kept_runs)).items():
                known = [run_id for run_id in run_ids if await store.run(run_id) is not None]
                if not known:
                    await offload(lambda mark=mark: snapshots.store.drop_marked(mark))
                    self._purges.collect_soon()
        except (JournalError, OSError) as error:
            _log.warning("snapshots of purged sessions are looked for at the next start: %s", error)
