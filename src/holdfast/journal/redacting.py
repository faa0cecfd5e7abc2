"""Redaction in front of a store: inputs and tools' blobs lose their secrets before they are stored.

`holdfast.redaction` lists every place where secrets are removed.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from typing_extensions import override

from holdfast.events import Input
from holdfast.interfaces.journal import (
    Appended,
    Blobs,
    Condition,
    Declined,
    IdempotencyKey,
    KeyConflict,
    Replayed,
    Store,
)
from holdfast.journal.forwarding import ForwardingStore
from holdfast.redaction import Redactor


class RedactingStore(ForwardingStore):
    """Removes secrets from inputs before they are appended; `redactor` is asked at each append.

    Run events pass unchanged: the run log redacts them earlier, because it may put them into the spool first.
    """

    def __init__(self, inner: Store, redactor: Callable[[], Redactor]) -> None:
        super().__init__(inner)
        self._redactor = redactor

    @override
    async def append(
        self,
        session_id: str,
        inputs: Sequence[Input],
        *,
        when: Sequence[Condition] = (),
        idempotency_key: IdempotencyKey | None = None,
    ) -> Appended | Declined | Replayed | KeyConflict:
        redact = self._redactor().redact
        redacted = cast("list[Input]", [redact(event) for event in inputs])
        return await super().append(session_id, redacted, when=when, idempotency_key=idempotency_key)


class RedactingBlobs(Blobs):
    """Removes secrets from what tools store; blobs that are already stored are returned unchanged."""

    def __init__(self, inner: Blobs, redactor: Redactor) -> None:
        self._inner = inner
        self._redactor = redactor

    @override
    async def put_blob(self, data: bytes) -> str:
        # In a thread: there can be many megabytes to search.
        return await self._inner.put_blob(await asyncio.to_thread(self._redactor.redact_bytes, data))

    @override
    async def keep_blob(self, name: str) -> bool:
        return await self._inner.keep_blob(name)

    @override
    async def blob(self, name: str) -> bytes | None:
        return await self._inner.blob(name)
