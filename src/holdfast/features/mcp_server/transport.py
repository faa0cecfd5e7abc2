"""The routes of /mcp: the streamable HTTP transport of the Model Context Protocol, for all versions.

It remembers nothing between two requests, so a client can continue with another process.
"""

from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from holdfast import __version__
from holdfast.features.mcp_server.bodies import RpcId, RpcMessage
from holdfast.features.mcp_server.peer import (
    META,
    MODERN_VERSIONS,
    SESSION_HEADER,
    McpPeer,
    agreed_version,
    handshake_peer,
    new_session,
    peer_of,
)
from holdfast.features.mcp_server.rpc import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Json,
    RpcError,
    error_response,
    json_of,
    read_message,
    result_body,
    rpc_error,
)
from holdfast.features.mcp_server.service import McpCall, McpCaller, McpStream
from holdfast.interfaces.journal import JournalError
from holdfast.server.access.request_secrets import without_secrets
from holdfast.server.options import Limits
from holdfast.server.problems import Problem, problem_of
from holdfast.server.streams.stream import EventStream, Reservation, Streams
from holdfast.server.transport.bodies import read_body
from holdfast.server.transport.once import KEY_RULE, is_key

if TYPE_CHECKING:
    from holdfast.features.mcp_server.agent_service import AgentService

_SERVER_INFO = {"name": "holdfast", "title": "Holdfast", "version": __version__}
_JSON, _EVENTS = "application/json", "text/event-stream"
_CACHEABLE = frozenset(
    {
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "server/discover",
        "tools/list",
    }
)
_STREAMING = frozenset({"tools/call", "subscriptions/listen"})
_NO_CACHE: Json = {"ttlMs": 0, "cacheScope": "private"}


class McpRoutes:
    """The routes of /mcp, for a service."""

    def __init__(self, service: "AgentService", streams: Streams, limits: Limits) -> None:
        self._service = service
        self._streams = streams
        self._limits = limits

    async def post(self, request: Request) -> Any:
        """POST /mcp: one message of a client."""
        _check_accepts(request.headers, _JSON)
        body = await read_body(request, self._limits)
        is_modern, rpc_id = False, None
        try:
            message = await read_message(body, self._limits)
            rpc_id = None if message.id is UNSET else message.id
            # A client that only knows later versions reads the status.
            is_modern = request.headers.get("mcp-protocol-version") in MODERN_VERSIONS
            peer = peer_of(message, request.headers)
            is_modern = peer.is_modern
            return await self._answer(request, message, peer)
        except (RpcError, Problem, JournalError) as error:
            return error_response(rpc_id, _told(error), is_modern=is_modern)

    async def get(self, request: Request) -> Any:
        """GET /mcp: the rest of a stream, or what the server says between requests."""
        _check_accepts(request.headers, _EVENTS)
        try:
            caller = _caller(request, handshake_peer(request.headers))
            if not caller.peer.session:
                text = "Send the header Mcp-Session-Id returned by 'initialize'"
                raise RpcError(INVALID_REQUEST, text, status=400)
            with self._streams.reserve(self._limits.subscribers_max) as place:
                if caller.last_event_id:
                    return self._stream(await self._service.resumed(caller), place)
                return self._stream(await self._service.listening(caller), place)
        except (RpcError, Problem, JournalError) as error:
            return error_response(None, _told(error), is_modern=True)

    async def _answer(self, request: Request, message: RpcMessage, peer: McpPeer) -> Any:
        caller = _caller(request, peer)
        params = message.params if isinstance(message.params, dict) else {}
        if message.method is UNSET:
            await self._service.answered(caller, message)
            return Response(status_code=202)
        if message.id is UNSET or message.id is None:
            await self._service.notified(caller, message.method, params)
            return Response(status_code=202)
        if message.method == "initialize" and not peer.is_modern:
            return self._initialized(message.id, params)
        if message.method == "ping" and not peer.is_modern:
            return json_of(result_body(message.id, {}))
        if message.method == "server/discover" and peer.is_modern:
            return self._whole(message.id, peer, "server/discover", self._discovered(peer))
        return await self._called(McpCall(message.id, message.method, params, caller), request.headers)

    async def _called(self, call: McpCall, headers: Headers) -> Any:
        if call.method not in _STREAMING:
            answer = await self._service.call(call)
            assert not isinstance(answer, McpStream), "only these methods have streams"
            return self._whole(call.id, call.caller.peer, call.method, answer)
        _check_accepts(headers, _EVENTS)
        # Nothing may begin that the client then can't hear of.
        with self._streams.reserve(self._limits.subscribers_max) as place:
            answer = await self._service.call(call)
            if isinstance(answer, McpStream):
                return self._stream(answer, place)
        return self._whole(call.id, call.caller.peer, call.method, answer)

    def _whole(self, rpc_id: RpcId, peer: McpPeer, method: str, result: Json) -> Response:
        if peer.is_modern:
            cache = _NO_CACHE if method in _CACHEABLE else {}
            result = {"resultType": "complete", **cache, **result}
        return json_of(result_body(rpc_id, result))

    def _stream(self, answer: McpStream, place: Reservation) -> EventStream:
        stream = EventStream(answer.feed, self._streams, limits=self._limits, on_left=answer.on_left)
        return place.assign_to(stream)

    def _initialized(self, rpc_id: RpcId, params: Json) -> Response:
        version = agreed_version(params)
        result = {
            "protocolVersion": version,
            "capabilities": self._service.capabilities(McpPeer(version)),
            "serverInfo": _SERVER_INFO,
            "instructions": self._service.instructions,
        }
        session = new_session(version, params.get("capabilities"))
        return json_of(result_body(rpc_id, result), headers={SESSION_HEADER: session})

    def _discovered(self, peer: McpPeer) -> Json:
        return {
            "supportedVersions": list(MODERN_VERSIONS),
            "capabilities": self._service.capabilities(peer),
            "instructions": self._service.instructions,
            "_meta": {f"{META}serverInfo": _SERVER_INFO},
        }


def unknown_method(method: str) -> RpcError:
    """Nothing of this name is served."""
    return RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")


def _told(error: Exception) -> RpcError:
    """Return the error for a client, without secrets."""
    if not isinstance(error, RpcError):
        return rpc_error(without_secrets(problem_of(error)))
    text = without_secrets(Problem(400, error.message, code="")).message
    return RpcError(error.code, text, data=error.data, status=error.status)


def _caller(request: Request, peer: McpPeer) -> McpCaller:
    headers = request.headers
    key, last = headers.get("idempotency-key"), headers.get("last-event-id", "")
    if key is not None and not is_key(key):
        raise RpcError(INVALID_REQUEST, KEY_RULE, status=400)
    return McpCaller(peer, request.scope, key or "", last)


def _check_accepts(headers: Headers, kind: str) -> None:
    """Raise a Problem if the client can't read this kind of answer."""
    given = headers.get("accept", "*/*").lower()
    wanted = {one.partition(";")[0].strip() for one in given.split(",")}
    if wanted.isdisjoint({kind, "*/*", f"{kind.partition('/')[0]}/*"}):
        text = f"Send the header 'Accept: {_JSON}, {_EVENTS}'"
        raise Problem(406, text, code="not_acceptable", param="Accept")
