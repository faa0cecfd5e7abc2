"""Operations for other protocols: AG-UI front ends, and agents and editors over MCP."""

from holdfast.api.ag_ui import RunAgentInput
from holdfast.api.mcp import RpcMessage, RpcResult
from holdfast.api.operation import EVENTS, ONCE, RESUME, START_ERRORS, Operation

FACE_OPERATIONS: tuple[Operation, ...] = (
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
