"""A store that writes down which API key started a run, and which one wrote a message."""

from collections.abc import Sequence
from typing import cast

from msgspec.structs import replace
from typing_extensions import override

from holdfast.events import Input, MessageAccepted, MessageEdited, RunQueued
from holdfast.interfaces.journal import (
    Appended,
    Condition,
    Declined,
    IdempotencyKey,
    KeyConflict,
    Replayed,
)
from holdfast.journal.forwarding import ForwardingStore
from holdfast.server.access.caller import caller_name

_MARKED = (RunQueued, MessageAccepted, MessageEdited)


class AttributedStore(ForwardingStore):
    """Adds the name of the request's key to the runs that it starts and the messages that it writes."""

    @override
    async def append(
        self,
        session_id: str,
        inputs: Sequence[Input],
        *,
        when: Sequence[Condition] = (),
        idempotency_key: IdempotencyKey | None = None,
    ) -> Appended | Declined | Replayed | KeyConflict:
        key = caller_name()
        marked = [
            replace(one, key=key) if isinstance(one, _MARKED) and not one.key else one for one in inputs
        ]
        return await super().append(
            session_id, cast("list[Input]", marked), when=when, idempotency_key=idempotency_key
        )
