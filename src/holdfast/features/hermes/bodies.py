"""The HTTP surface of hermes' session chat."""

from typing import Annotated, Literal

import msgspec

from holdfast.api.body import ResponseBody
from holdfast.api.errors import ErrorDetail
from holdfast.api.operation import EVENTS, ONCE, START_ERRORS, WHOLE_ERRORS, Operation
from holdfast.api.runs import RunRequest, UsageShown


class SessionChatRequest(RunRequest, kw_only=True):
    """The body of POST /api/sessions/{session_id}/chat and /chat/stream."""

    system_message: Annotated[str | None, msgspec.Meta(description="Another name for instructions.")] = None


class AssistantSaid(ResponseBody, frozen=True):
    """The model's message."""

    role: Literal["assistant"]
    content: str


class SessionChatCompletion(
    ResponseBody, frozen=True, tag_field="object", tag="hermes.session.chat.completion"
):
    """The answer to a message in a session."""

    session_id: str
    run_id: str
    status: Literal["completed"]
    message: AssistantSaid
    usage: UsageShown


class SessionChatFailed(ResponseBody, frozen=True, tag_field="object", tag="hermes.session.chat.completion"):
    """A message in a session without a complete answer."""

    session_id: str
    run_id: str
    status: str
    error: ErrorDetail
    output: str


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST",
        "/api/sessions/{session_id}/chat",
        "chat.chat",
        tag="Sessions",
        any_workspace="It checks the folder of its run.",
        summary="Send a message and wait for the answer.",
        request=SessionChatRequest,
        responses={200: SessionChatCompletion},
        errors={**START_ERRORS, **WHOLE_ERRORS},
        headers=ONCE,
        needs_request=True,
    ),
    Operation(
        "POST",
        "/api/sessions/{session_id}/chat/stream",
        "chat.stream",
        tag="Sessions",
        any_workspace="It checks the folder of its run.",
        summary="Send a message and stream the answer.",
        request=SessionChatRequest,
        responses={200: {EVENTS: None}},
        errors={**START_ERRORS, 429: "queue_full, too_many_streams"},
        headers=ONCE,
        needs_request=True,
    ),
)
