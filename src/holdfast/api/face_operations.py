"""The operations for clients of other protocols: front ends over AG-UI, and agents and editors over MCP."""

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
            "A run as AG-UI 1.0 events. The thread is a session. An approval or a question ends the stream "
            "with an interrupt; answer it with `resume`, and the same run continues. Calls of your `tools` "
            "end it with `pendingToolCallIds`; send the messages with their results to continue. A request "
            "with the same runId reads the same run; with `Last-Event-ID`, it reads the rest. If you leave "
            "before the end, the run stops after a short grace period, unless "
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
            "One JSON-RPC message of a Model Context Protocol client (streamable HTTP, up to version "
            "2026-07-28). Errors of a method are JSON-RPC errors. A call of `run_agent` is answered with a "
            "stream, or with a task if the client declares the extension for tasks. A call with the same "
            "idempotency key has one effect. Approving needs the scope approve."
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
            "The rest of a stream after `Last-Event-ID`, or, without it, changes of the resources that the "
            "client has subscribed to. For protocol versions up to 2025-11-25."
        ),
        responses={200: {EVENTS: None}, **dict.fromkeys((400, 404, 405, 429), RpcResult)},
        errors={403: "missing_scope", 406: "not_acceptable", 429: "too_many_streams"},
        headers={**RESUME, "Mcp-Session-Id": "The session that `initialize` returned."},
        required=frozenset({"Mcp-Session-Id"}),
    ),
)
