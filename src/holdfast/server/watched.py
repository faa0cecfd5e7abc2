"""The store as the server uses it: no secret goes in with an input, and what is on disk is counted."""

from asyncio import Future, ensure_future
from collections.abc import Sequence
from typing import Any, cast

from holdfast.agent.deps import AgentDeps
from holdfast.events import Event, Input, SessionForked
from holdfast.interfaces.journal import Appended, Declined, Fence, KeyConflict, Replayed, Store
from holdfast.metrics import Metrics


def watched(agent: AgentDeps, metrics: Metrics) -> Store:
    """The agent's store; `figures` sees what is appended through this one, as everyone else does."""
    return cast("Store", _Watched(agent, metrics))


class _Watched:
    """Hands everything on, and looks at what was appended."""

    def __init__(self, agent: AgentDeps, metrics: Metrics) -> None:
        self._store = agent.store
        self._clock = agent.clock
        self._secrets = agent.secrets
        self._metrics = metrics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(
        self, session_id: str, inputs: Sequence[Input], **rest: Any
    ) -> Appended | Declined | Replayed | KeyConflict:
        began_s = self._clock.monotonic_s()
        clean = cast("Sequence[Input]", [self._secrets.redact(one) for one in inputs])
        result = await self._store.append(session_id, clean, **rest)
        # The copied log of a fork happened somewhere else, and was counted there.
        is_copy = any(isinstance(one, SessionForked) for one in inputs)
        self._count(result, () if is_copy else inputs, began_s)
        return result

    def append_run(
        self, session_id: str, events: Sequence[Event], *, fence: Fence, **rest: Any
    ) -> Future[Appended | Declined | Replayed]:
        began_s = self._clock.monotonic_s()
        appending = ensure_future(self._store.append_run(session_id, events, fence=fence, **rest))

        def count(appended: Future[Appended | Declined | Replayed]) -> None:
            if not appended.cancelled() and appended.exception() is None:
                self._count(appended.result(), events, began_s)

        appending.add_done_callback(count)
        return appending

    def _count(self, result: object, events: Sequence[Event], began_s: float) -> None:
        if not isinstance(result, Appended):
            return
        self._metrics.commit_s.add(self._clock.monotonic_s() - began_s)
        for event in events:
            self._metrics.add(event)
