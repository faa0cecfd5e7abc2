"""The common part of all stores: redaction, hooks, and followers of logs."""

import time
from abc import abstractmethod
from collections.abc import Awaitable, Sequence
from typing import Any, cast

from typing_extensions import override

from holdfast.events import Event, Input
from holdfast.interfaces.journal import (
    Appended,
    Condition,
    Declined,
    Fence,
    IdempotencyKey,
    KeyConflict,
    LogKind,
    LogWatch,
    Pace,
    Record,
    Replayed,
    Store,
    StoreHooks,
)
from holdfast.interfaces.nodes import Node, OwnershipChange, SessionPlace
from holdfast.journal.follow import ChangeFeed, Changes, Follower, Tails
from holdfast.redaction import Redactor

NO_HOOKS = StoreHooks()
now_s = time.monotonic


class LogStore(Store):
    """The base of the stores. Inputs and blobs lose their secrets here.

    Run events pass unchanged: the run log redacts them earlier, because it may put them into the spool first.
    """

    def __init__(self, redactor: Redactor, *, window_bytes_max: int) -> None:
        self.redactor = redactor
        self.hooks = NO_HOOKS
        self._tails = Tails(self._read_on, window_bytes_max=window_bytes_max)
        self._ownership: ChangeFeed[OwnershipChange] = ChangeFeed()

    @abstractmethod
    def _submit(
        self,
        session_id: str,
        events: Sequence[Event],
        fence: Fence | None,
        when: Sequence[Condition],
        idempotency_key: IdempotencyKey | None,
    ) -> Awaitable[Any]:
        """Write the events. After their commit, publish them and call `hooks.after_commit`.

        Without a fence they are inputs. No keyword arguments: this is called for every delta of every run.
        """

    @override
    async def append(
        self,
        session_id: str,
        inputs: Sequence[Input],
        *,
        when: Sequence[Condition] = (),
        idempotency_key: IdempotencyKey | None = None,
    ) -> Appended | Declined | Replayed | KeyConflict:
        if self.hooks.before_append is not None:
            inputs = self.hooks.before_append(inputs)
        redact = self.redactor.redact
        inputs = cast("Sequence[Input]", [redact(event) for event in inputs])
        return await self._submit(session_id, inputs, None, when, idempotency_key)

    @override
    def append_run(
        self,
        session_id: str,
        events: Sequence[Event],
        *,
        fence: Fence,
        when: Sequence[Condition] = (),
        idempotency_key: IdempotencyKey | None = None,
    ) -> Awaitable[Appended | Declined | Replayed]:
        return self._submit(session_id, events, fence, when, idempotency_key)

    async def _read_on(self, session_id: str, after: int, limit: int) -> Sequence[Record]:
        """Return what a follower gets next."""
        return await self.read(session_id, after=after, limit=limit)

    @override
    def follow(self, session_id: str, *, after: int = 0, pace: Pace = "every") -> Follower:
        return self._tails.follow(session_id, after, pace)

    @override
    def watch(self, session_id: str) -> LogWatch:
        return self._tails.watch(session_id)

    @override
    def changes(self, *, of: LogKind = "all") -> Changes[str]:
        return self._tails.changes(of)

    @override
    async def nodes(self) -> Sequence[Node]:
        return [self.node]

    @override
    async def place(self, session_id: str) -> SessionPlace:
        return SessionPlace()

    @override
    def ownership(self) -> Changes[OwnershipChange]:
        return self._ownership.subscribe()
