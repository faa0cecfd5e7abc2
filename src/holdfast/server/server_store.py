"""The store of a server: inputs get their API key's name and lose their secrets, and commits are counted."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from msgspec.structs import replace
from typing_extensions import override

from holdfast.events import Event, Input, MessageAccepted, MessageEdited, RunQueued, SessionForked
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
from holdfast.journal.redacting import RedactingStore
from holdfast.redaction import Redactor
from holdfast.server.access.caller import caller_name

_MARKED = (RunQueued, MessageAccepted, MessageEdited)


class ServerStore(RedactingStore):
    """Notes which key starts a run or writes a message, and how long each commit takes."""

    def __init__(
        self, inner: Store, redactor: Callable[[], Redactor], *, clock: Clock, metrics: Metrics
    ) -> None:
        super().__init__(inner, redactor)
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
        began_s, key = self._clock.monotonic_s(), caller_name()
        if key:
            marked = [
                replace(one, key=key) if isinstance(one, _MARKED) and not one.key else one for one in inputs
            ]
            inputs = cast("list[Input]", marked)
        result = await super().append(session_id, inputs, when=when, idempotency_key=idempotency_key)
        if isinstance(result, Appended):
            # A fork copies events that were counted when they happened.
            is_copy = any(isinstance(event, SessionForked) for event in inputs)
            self._count(() if is_copy else inputs, began_s)
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
    ) -> asyncio.Future[Appended | Declined | Replayed]:
        appending = self._inner.append_run(
            session_id, events, fence=fence, when=when, idempotency_key=idempotency_key
        )
        if not isinstance(appending, asyncio.Future):
            appending = asyncio.ensure_future(appending)
        appending.add_done_callback(partial(self._appended, events, self._clock.monotonic_s()))
        return appending

    def _appended(
        self, events: Sequence[Event], began_s: float, done: asyncio.Future[Appended | Declined | Replayed]
    ) -> None:
        if not done.cancelled() and done.exception() is None and isinstance(done.result(), Appended):
            self._count(events, began_s)

    def _count(self, events: Sequence[Event], began_s: float) -> None:
        self._metrics.commit_s.add(self._clock.monotonic_s() - began_s)
        self._metrics.add(*events)
