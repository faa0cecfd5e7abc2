"""A server's part in each append: inputs get the name of their API key, and commits are counted."""

from collections.abc import Sequence
from typing import cast

from msgspec.structs import replace

from holdfast.events import Event, Input, MessageAccepted, MessageEdited, RunQueued, SessionForked
from holdfast.folds.metrics import Metrics
from holdfast.interfaces.journal import Store, StoreHooks
from holdfast.redaction import Redactor
from holdfast.server.access.caller import caller_name
from holdfast.server.access.request_secrets import request_redactor

_MARKED = (RunQueued, MessageAccepted, MessageEdited)


def hook_into(store: Store, secrets: Redactor, metrics: Metrics) -> None:
    """Note which key starts a run or writes a message, and how long each commit takes.

    Inputs also lose the key that the caller of a request has sent. The store doesn't know it.
    """

    def before_append(inputs: Sequence[Input]) -> Sequence[Input]:
        if key := caller_name():
            marked = [
                replace(one, key=key) if isinstance(one, _MARKED) and not one.key else one for one in inputs
            ]
            inputs = cast("list[Input]", marked)
        redactor = request_redactor(secrets)
        if redactor is store.redactor:
            return inputs
        return cast("list[Input]", [redactor.redact(event) for event in inputs])

    def after_commit(events: Sequence[Event], seconds: float) -> None:
        metrics.commit_s.add(seconds)
        # A fork copies events that were counted when they happened.
        if SessionForked not in map(type, events):
            metrics.add(*events)

    store.hooks = StoreHooks(before_append, after_commit)
