"""The store of a server: every event that it commits is counted in the metrics."""

from asyncio import Future, ensure_future
from collections.abc import Sequence

from typing_extensions import override

from holdfast.events import Event, Input, SessionForked
from holdfast.folds.metrics import Metrics
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import (
    Appended,
    Condition,
    Declined,
    Fence,
    IdempotencyKey,
    KeyConflict,
    Replayed,
    Store,
)
from holdfast.journal.forwarding import ForwardingStore


class MeteredStore(ForwardingStore):
    """Counts what is appended, and how long each commit takes."""

    def __init__(self, inner: Store, clock: Clock, metrics: Metrics) -> None:
        super().__init__(inner)
        self._clock = clock
        self._metrics = metrics

    @override
    async def append(
        self,
        session_id: str,
        inputs: Sequence[Input],
        *,
        when: Sequence[Condition] = (),
        idempotency_key: IdempotencyKey | None = None,
    ) -> Appended | Declined | Replayed | KeyConflict:
        began_s = self._clock.monotonic_s()
        result = await super().append(session_id, inputs, when=when, idempotency_key=idempotency_key)
        # A fork copies events that were counted when they happened.
        is_copy = any(isinstance(event, SessionForked) for event in inputs)
        self._count(result, () if is_copy else inputs, began_s)
        return result

    @override
    def append_run(
        self,
        session_id: str,
        events: Sequence[Event],
        *,
        fence: Fence,
        when: Sequence[Condition] = (),
        idempotency_key: IdempotencyKey | None = None,
    ) -> Future[Appended | Declined | Replayed]:
        began_s = self._clock.monotonic_s()
        appending = ensure_future(
            super().append_run(session_id, events, fence=fence, when=when, idempotency_key=idempotency_key)
        )

        def count(appended: Future[Appended | Declined | Replayed]) -> None:
            if not appended.cancelled() and appended.exception() is None:
                self._count(appended.result(), events, began_s)

        appending.add_done_callback(count)
        return appending

    def _count(self, result: object, events: Sequence[Event], began_s: float) -> None:
        if not isinstance(result, Appended):
            return
        self._metrics.commit_s.add(self._clock.monotonic_s() - began_s)
        self._metrics.add(*events)
