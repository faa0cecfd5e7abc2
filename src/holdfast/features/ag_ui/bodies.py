"""POST /ag-ui and its body (AG-UI 1.0)."""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from holdfast.api.operation import EVENTS, RESUME, START_ERRORS, Operation
from holdfast.api.runs import ROLES, Effort, OnDisconnect, SessionId, ShortText

PROTOCOL_VERSION = "1.0"


AgUiMessage: TypeAlias = Annotated[
    dict[str, Any],
    msgspec.Meta(
        extra_json_schema={
            "required": ["role"],
            "properties": {
                "role": {"enum": sorted(ROLES)},
                "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]},
            },
        }
    ),
]


class AgUiTool(msgspec.Struct, kw_only=True):
    """A tool run by the front end."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None


class AgUiContext(msgspec.Struct, kw_only=True):
    """Context for the model."""

    description: str = ""
    value: str


class InterruptAnswer(msgspec.Struct, kw_only=True, rename="camel"):
    """The answer to an interrupt: an approval or a question."""

    interrupt_id: ShortText
    status: Literal["resolved", "cancelled"]
    payload: Annotated[
        Any,
        msgspec.Meta(
            description=(
                "Approval: true, false, {approved}, or {choice, reason} with a choice from the interrupt. "
                "Question: the answer as text, or {answer}."
            )
        ),
    ] = None


class AgUiOptions(msgspec.Struct, kw_only=True):
    """`forwardedProps.holdfast`: run settings."""

    model: ShortText | None = None
    effort: Effort | None = None
    workspace: str | None = None
    instructions: str | None = None
    on_disconnect: OnDisconnect | None = None


class RunAgentInput(msgspec.Struct, kw_only=True, rename="camel"):
    """The body of POST /ag-ui; `state` is not used."""

    thread_id: Annotated[SessionId, msgspec.Meta(description="The session. A new id creates a session.")]
    run_id: Annotated[
        ShortText,
        msgspec.Meta(min_length=1, description="Idempotency key. A repeated id returns the same run."),
    ]
    messages: list[AgUiMessage] = []
    tools: list[AgUiTool] | None = None
    context: list[AgUiContext] | None = None
    forwarded_props: Any = None
    resume: list[InterruptAnswer] | None = None
    parent_run_id: ShortText | None = None


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST",
        "/ag-ui",
        "ag_ui.run",
        tag="AG-UI",
        summary=(
            "Start or continue a run and stream AG-UI 1.0 events. The thread is a session. An approval or "
            "question ends the stream with an interrupt; answer it with `resume` to continue the run. "
            "Calls to your `tools` end it with `pendingToolCallIds`; send the messages with their results "
            "to continue. A repeated `runId` returns the same run; `Last-Event-ID` resumes its stream. If "
            "you disconnect early, the run stops after a short grace period unless "
            "`forwardedProps.holdfast.on_disconnect` is detach. Approving needs the scope approve."
        ),
        request=RunAgentInput,
        responses={200: {EVENTS: None}},
        errors={
            **START_ERRORS,
            403: "missing_scope, workspace_not_allowed",
            404: "interrupt_not_found",
            409: "interrupt_open, run_unknown, session_deleted, session_busy, idempotency_key_conflict",
            429: "queue_full, too_many_streams",
        },
        headers=RESUME,
        needs_request=True,
    ),
)
