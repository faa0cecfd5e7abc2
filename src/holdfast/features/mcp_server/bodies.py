"""The operations of /mcp, the messages that clients send there, and the arguments of each tool."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.api.operation import EVENTS, ONCE, RESUME, Operation
from holdfast.api.runs import Effort, SessionId, ShortText

ID_CHARS_MAX = 256
ID_MAX = 2**53 - 1

_RpcText = Annotated[str, msgspec.Meta(max_length=ID_CHARS_MAX)]
_RpcNumber = Annotated[int, msgspec.Meta(ge=-ID_MAX, le=ID_MAX)]
RpcId = _RpcNumber | _RpcText


class RpcMessage(msgspec.Struct, kw_only=True):
    """One JSON-RPC message: a request (id and method), a notification (method), or a response (id)."""

    jsonrpc: Literal["2.0"]
    id: RpcId | UnsetType | None = UNSET
    method: Annotated[str, msgspec.Meta(max_length=ID_CHARS_MAX)] | UnsetType = UNSET
    params: dict[str, Any] | UnsetType | None = UNSET
    result: dict[str, Any] | UnsetType = UNSET
    error: dict[str, Any] | UnsetType = UNSET


class RpcResult(msgspec.Struct, kw_only=True):
    """The response to a JSON-RPC request: a result or an error."""

    jsonrpc: Literal["2.0"]
    id: RpcId | None
    result: dict[str, Any] | UnsetType = UNSET
    error: dict[str, Any] | UnsetType = UNSET


class _Arguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool."""


class RunAgentArguments(_Arguments):
    """Give the agent a task and wait for its answer."""

    message: Annotated[str, msgspec.Meta(min_length=1, description="The task, in plain language.")]
    session_id: Annotated[SessionId, msgspec.Meta(description="Session to continue. Default: a new one.")] = (
        ""
    )
    workspace: Annotated[
        str, msgspec.Meta(description="Working directory, as an absolute path on the server.")
    ] = ""
    model: Annotated[
        ShortText, msgspec.Meta(description="A configured target to use instead of the default.")
    ] = ""
    effort: Annotated[
        Effort | None, msgspec.Meta(description="Reasoning effort, for models that support it.")
    ] = None
    instructions: Annotated[str, msgspec.Meta(description="Extra instructions for this run.")] = ""


class AnswerArguments(_Arguments):
    """Answer a pending approval or question, and wait for the run's next result."""

    id: Annotated[ShortText, msgspec.Meta(min_length=1, description="The id of the approval or question.")]
    answer: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            description="Approval: one of its choices, such as once or deny. Question: text.",
        ),
    ]
    reason: Annotated[str, msgspec.Meta(description="Reason, sent to the agent.")] = ""


class RunArguments(_Arguments):
    """Show a run's status, and its answer if it has ended."""

    run_id: Annotated[ShortText, msgspec.Meta(min_length=1, description="The id of the run.")]


class StopArguments(RunArguments):
    """Stop a run and everything it started."""


class SendArguments(_Arguments):
    """Send a message to a running agent."""

    run_id: Annotated[ShortText, msgspec.Meta(min_length=1, description="The id of the run.")]
    message: Annotated[str, msgspec.Meta(min_length=1, description="The message.")]


class ListSessionsArguments(_Arguments):
    """List sessions, newest first."""

    query: Annotated[str, msgspec.Meta(description="Only sessions that contain this text.")] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=100, description="Page size.")] = 20
    cursor: Annotated[str, msgspec.Meta(description="`next_cursor` of the previous page.")] = ""


class ReadSessionArguments(_Arguments):
    """Read the transcript of a session: its newest entries, up to the limit."""

    session_id: Annotated[SessionId, msgspec.Meta(min_length=1, description="The id of the session.")]
    limit: Annotated[int, msgspec.Meta(ge=1, le=200, description="Maximum number of entries.")] = 50
    before: Annotated[int, msgspec.Meta(ge=0, description="`next_before` of the previous page.")] = 0


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST",
        "/mcp",
        "mcp.post",
        tag="MCP",
        summary=(
            "Send one JSON-RPC message as a Model Context Protocol client (streamable HTTP, up to version "
            "2026-07-28). Method errors are JSON-RPC errors. `run_agent` returns a stream, or a task if "
            "the client declares the tasks extension. Calls with the same idempotency key take effect "
            "once. Approving needs the scope approve."
        ),
        request=RpcMessage,
        responses={
            200: {"application/json": RpcResult, EVENTS: None},
            202: None,
            400: RpcResult,
            **dict.fromkeys((400, 403, 404, 429, 503), RpcResult),
        },
        errors={403: "missing_scope", 406: "not_acceptable", 429: "too_many_streams"},
        headers={**RESUME, **ONCE},
        needs_request=True,
    ),
    Operation(
        "GET",
        "/mcp",
        "mcp.get",
        tag="MCP",
        summary=(
            "Resume a stream after `Last-Event-ID`. Without that header, stream changes of subscribed "
            "resources. For protocol versions up to 2025-11-25."
        ),
        responses={200: {EVENTS: None}, **dict.fromkeys((400, 404, 405, 429), RpcResult)},
        errors={403: "missing_scope", 406: "not_acceptable", 429: "too_many_streams"},
        headers={**RESUME, "Mcp-Session-Id": "The session id returned by `initialize`."},
        required=frozenset({"Mcp-Session-Id"}),
    ),
)
