"""JSON-RPC as the Model Context Protocol uses it: what is read, what is sent, and its errors."""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET
from starlette.responses import Response

from holdfast.features.mcp_server.bodies import RpcId, RpcMessage
from holdfast.server.options import Limits
from holdfast.server.problems import Problem
from holdfast.server.transport.bodies import parsed, raw_response

Json: TypeAlias = dict[str, Any]

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
NOT_ALLOWED, BUSY, RESOURCE_NOT_FOUND = -32003, -32004, -32002

_STATUSES: Mapping[int, int] = MappingProxyType(
    {
        PARSE_ERROR: 400,
        INVALID_REQUEST: 400,
        INVALID_PARAMS: 400,
        HEADER_MISMATCH: 400,
        MISSING_CAPABILITY: 400,
        UNSUPPORTED_VERSION: 400,
        METHOD_NOT_FOUND: 404,
    }
)
_encode = msgspec.json.Encoder().encode


class RpcError(Exception):
    """An error in place of a result. `status` is the HTTP status for codes without one."""

    def __init__(self, code: int, message: str, *, data: Json | None = None, status: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.status = status

    @property
    def body(self) -> Json:
        """The error as JSON-RPC has it."""
        error: Json = {"code": self.code, "message": self.message}
        return error if self.data is None else error | {"data": self.data}


async def read_message(body: bytes, limits: Limits) -> RpcMessage:
    """The one message of a body; raises an RpcError."""
    try:
        message = await parsed(body, limits, RpcMessage)
    except Problem as problem:
        if problem.code == "invalid_json":
            raise RpcError(PARSE_ERROR, problem.message, status=400) from None
        text = f"The body must be a single JSON-RPC 2.0 message, not a batch. {problem.message}"
        raise RpcError(INVALID_REQUEST, text, status=400) from None
    has_id, has_method = message.id is not UNSET, message.method is not UNSET
    outcomes = (message.result is not UNSET) + (message.error is not UNSET)
    is_ambiguous = outcomes > 1  # a response with both a result and an error isn't consent
    if message.id is None or has_method == bool(outcomes) or (outcomes and not has_id) or is_ambiguous:
        text = "The body must be a JSON-RPC request, a notification or a response"
        raise RpcError(INVALID_REQUEST, text, status=400)
    return message


def rpc_error(problem: Problem) -> RpcError:
    """A problem of the server as JSON-RPC has it."""
    data: Json = {"code": problem.code} | ({"param": problem.param} if problem.param else {})
    match problem.status:
        case HTTPStatus.FORBIDDEN:
            return RpcError(NOT_ALLOWED, problem.message, data=data, status=403)
        case HTTPStatus.TOO_MANY_REQUESTS | HTTPStatus.SERVICE_UNAVAILABLE:
            return RpcError(BUSY, problem.message, data=data, status=problem.status)
        case status if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return RpcError(INTERNAL_ERROR, problem.message, data=data, status=status)
        case _:
            return RpcError(INVALID_PARAMS, problem.message, data=data)


def result_body(rpc_id: RpcId, result: Json) -> Json:
    """A response with a result."""
    return {"jsonrpc": "2.0", "id": rpc_id, "result": result}


def error_body(rpc_id: RpcId | None, error: RpcError) -> Json:
    """A response with an error."""
    return {"jsonrpc": "2.0", "id": rpc_id, "error": error.body}


def notification(method: str, params: Json) -> Json:
    """A notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def json_of(body: Json, status: int = 200, *, headers: Mapping[str, str] | None = None) -> Response:
    """A message as a whole HTTP response."""
    return raw_response(_encode(body), status, headers=headers)


def error_response(rpc_id: RpcId | None, error: RpcError, *, is_modern: bool) -> Response:
    """An error as an HTTP response; up to 2025, an error of a method had the status 200."""
    status = error.status or (_STATUSES.get(error.code, 200) if is_modern else 200)
    return json_of(error_body(rpc_id, error), status)


def sse(body: Json, *, cursor: str = "") -> bytes:
    """A message as an event of a stream; with a cursor, a reader can resume after it."""
    name = f"id: {cursor}\n".encode() if cursor else b""
    return b"%bdata: %b\n\n" % (name, _encode(body))
