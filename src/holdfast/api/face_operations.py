"""Operations for agents and editors over MCP."""

from holdfast.api.mcp import RpcMessage, RpcResult
from holdfast.api.operation import EVENTS, ONCE, RESUME, Operation

FACE_OPERATIONS: tuple[Operation, ...] = (
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
