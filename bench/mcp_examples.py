"""The tools, resources and prompts that the conformance kit calls by name, behind this server's transport."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import UNSET

from holdfast.features.mcp_server.bodies import RpcMessage
from holdfast.features.mcp_server.peer import McpPeer
from holdfast.features.mcp_server.rpc import (
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    RESOURCE_NOT_FOUND,
    Json,
    RpcError,
    error_body,
    notification,
    result_body,
    sse,
)
from holdfast.features.mcp_server.service import McpCall, McpCaller, McpStream
from holdfast.features.mcp_server.transport import unknown_method

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
PAUSE_S = 0.05
NAMES: Json = {"type": "object", "properties": {}}
SCHEMA_2020: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def text(said: str) -> Json:
    """A result of one text."""
    return {"content": [{"type": "text", "text": said}]}


class QueueFeed:
    """Frames that a tool puts while it works; a Feed."""

    def __init__(self) -> None:
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue(64)

    def put(self, frame: bytes | None) -> None:
        """Add a frame, or the end."""
        self._frames.put_nowait(frame)

    async def more(self) -> Sequence[bytes] | None:
        """The next frame."""
        frame = await self._frames.get()
        return None if frame is None else [frame] if frame else []

    def wake(self) -> None:
        """Let a waiting `more` return."""
        self.put(b"")

    def ephemeral_frames(self, silent_s: float) -> Sequence[bytes]:
        """There are none."""
        del silent_s
        return ()

    def next_check_s(self, silent_s: float) -> float | None:
        """Never."""
        del silent_s
        return None


class Exchange:
    """What a tool can do while it works: notify the client, and ask it."""

    def __init__(self, call: McpCall, feed: QueueFeed, asked: dict[str, "asyncio.Future[Json]"]) -> None:
        self.call = call
        self.feed = feed
        self._asked = asked

    def say(self, method: str, params: Json) -> None:
        """Send a notification."""
        self.feed.put(sse(notification(method, params)))

    async def ask(self, method: str, params: Json) -> Json:
        """Send a request and wait for its answer."""
        name = f"ask-{id(self)}-{len(self._asked)}"
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._asked[name] = future
        self.feed.put(sse({"jsonrpc": "2.0", "id": name, "method": method, "params": params}))
        return await asyncio.wait_for(future, 10)  # noqa: TID251


Tool = Callable[[Exchange, Json], Awaitable[Json]]


async def _logging(work: Exchange, given: Json) -> Json:
    del given
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        work.say("notifications/message", {"level": "info", "data": said})
        await asyncio.sleep(PAUSE_S)
    return text("Logged three messages.")


async def _progress(work: Exchange, given: Json) -> Json:
    del given
    token = work.call.progress_token
    for at in (0, 50, 100):
        if token is not None:
            params = {"progressToken": token, "progress": at, "total": 100}
            work.say("notifications/progress", params)
        await asyncio.sleep(PAUSE_S)
    return text("Told of progress.")


async def _sampling(work: Exchange, given: Json) -> Json:
    said = {"role": "user", "content": {"type": "text", "text": given.get("prompt", "")}}
    answer = await work.ask("sampling/createMessage", {"messages": [said], "maxTokens": 100})
    return text(f"LLM response: {answer.get('content', {}).get('text')}")


async def _elicitation(work: Exchange, given: Json) -> Json:
    fields = {name: {"type": "string", "description": name} for name in ("username", "email")}
    schema = {"type": "object", "properties": fields, "required": ["username", "email"]}
    params = {"message": given.get("message", ""), "requestedSchema": schema}
    answer = await work.ask("elicitation/create", params)
    return text(
        f"User response: action: {answer.get('action')}, content: {json.dumps(answer.get('content'))}"
    )


async def _defaults(work: Exchange, given: Json) -> Json:
    del given
    fields: Json = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await _completed(work, fields)


async def _enums(work: Exchange, given: Json) -> Json:
    del given
    options, values = ["option1", "option2", "option3"], ["value1", "value2", "value3"]
    titled = [{"const": value, "title": f"Option {value}"} for value in values]
    fields: Json = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await _completed(work, fields)


async def _completed(work: Exchange, fields: Json) -> Json:
    schema: Json = {"type": "object", "properties": fields, "required": []}
    params: Json = {"message": "Please fill this in", "requestedSchema": schema}
    answer = await work.ask("elicitation/create", params)
    said = json.dumps(answer.get("content"))
    return text(f"Elicitation completed: action={answer.get('action')}, content={said}")


def _fixed(result: Json) -> Tool:
    async def tool(work: Exchange, given: Json) -> Json:
        del work, given
        return result

    return tool


def _resource(uri: str, kind: str, said: str) -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": said}}


_IMAGE: Json = {"type": "image", "data": PNG, "mimeType": "image/png"}
_MIXED = [
    {"type": "text", "text": "Multiple content types test:"},
    _IMAGE,
    _resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
]
_EMBEDDED = _resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")
_ERROR = text("This tool intentionally returns an error for testing") | {"isError": True}
_FORM: Json = {"message": "Who are you?", "requestedSchema": {"type": "object", "properties": {}}}
_ASKS: Json = {
    "resultType": "input_required",
    "inputRequests": {"who": {"method": "elicitation/create", "params": {"mode": "form", **_FORM}}},
}
TOOLS: dict[str, Tool] = {
    "test_simple_text": _fixed(text("This is a simple text response for testing.")),
    "test_image_content": _fixed({"content": [_IMAGE]}),
    "test_audio_content": _fixed({"content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]}),
    "test_embedded_resource": _fixed({"content": [_EMBEDDED]}),
    "test_multiple_content_types": _fixed({"content": _MIXED}),
    "test_error_handling": _fixed(_ERROR),
    "json_schema_2020_12_tool": _fixed(text("ok")),
    "test_logging_tool": _fixed(text("It logs nothing, because nobody asked for it.")),
    "test_streaming_elicitation": _fixed(_ASKS),
    "test_tool_with_logging": _logging,
    "test_tool_with_progress": _progress,
    "test_sampling": _sampling,
    "test_elicitation": _elicitation,
    "test_elicitation_sep1034_defaults": _defaults,
    "test_elicitation_sep1330_enums": _enums,
}
STREAMED = {name for name, tool in TOOLS.items() if tool.__name__ != "tool"}


class ExampleService:
    """Answers the kit's requests; an McpService."""

    instructions = "Examples for the conformance kit."

    def __init__(self) -> None:
        self._asked: dict[str, asyncio.Future[Json]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._left: dict[str, Json] = {}  # results of streams that were closed before their end

    def capabilities(self, peer: McpPeer) -> Json:
        """Everything that the examples use."""
        offered: Json = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
        return offered if peer.is_modern else offered | {"resources": {"subscribe": True}, "logging": {}}

    async def call(self, call: McpCall) -> Json | McpStream:
        """One of the examples."""
        params = call.params
        match call.method:
            case "tools/list":
                return {"tools": [self._tool(name) for name in (*TOOLS, "test_reconnection")]}
            case "tools/call":
                return await self._run(call)
            case "resources/list":
                return {"resources": [_listed("test://static-text"), _listed("test://static-binary")]}
            case "resources/templates/list":
                template = {"uriTemplate": "test://template/{id}/data", "name": "template"}
                return {"resourceTemplates": [template | {"mimeType": "application/json"}]}
            case "resources/read":
                return _read(params.get("uri"), is_modern=call.caller.peer.is_modern)
            case "prompts/list":
                return {"prompts": [_prompt(name) for name in PROMPTS]}
            case "prompts/get":
                return _messages(params)
            case "completion/complete":
                return {"completion": {"values": ["paris", "park"], "total": 2, "hasMore": False}}
            case "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" if (
                not call.caller.peer.is_modern
            ):
                return {}
            case _:
                raise unknown_method(call.method)

    async def notified(self, caller: McpCaller, method: str, params: Json) -> None:
        """Nothing to do."""

    async def answered(self, caller: McpCaller, message: RpcMessage) -> None:
        """Give the answer to the tool that waits for it."""
        del caller
        future = self._asked.pop(str(message.id), None)
        if future is not None and not future.done():
            future.set_result({} if message.result is UNSET else message.result)

    async def resumed(self, caller: McpCaller) -> McpStream:
        """The rest of `test_reconnection`."""
        feed = QueueFeed()
        feed.put(sse(self._left.pop(caller.last_event_id, {}), cursor=f"{caller.last_event_id}-end"))
        feed.put(None)
        return McpStream(feed)

    async def listening(self, caller: McpCaller) -> McpStream:
        """Nothing happens between requests."""
        del caller
        return McpStream(QueueFeed())

    async def _run(self, call: McpCall) -> Json | McpStream:
        name = str(call.params.get("name"))
        given: Json = call.params.get("arguments") or {}
        if name == "test_reconnection":
            return self._reconnection(call)
        if name == "test_missing_capability":
            raise RpcError(
                MISSING_CAPABILITY,
                "This tool needs sampling",
                data={"requiredCapabilities": {"sampling": {}}},
            )
        if name not in TOOLS:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {name}")
        feed = QueueFeed()
        work = Exchange(call, feed, self._asked)
        if name not in STREAMED:
            return await TOOLS[name](work, given)
        if call.caller.peer.is_primed:
            feed.put(f"id: {name}-{call.id}\nretry: 500\ndata: \n\n".encode())
        task = asyncio.create_task(self._work(TOOLS[name], work, given))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return McpStream(feed)

    async def _work(self, tool: Tool, work: Exchange, given: Json) -> None:
        try:
            result = await tool(work, given)
        except TimeoutError:
            work.feed.put(sse(error_body(work.call.id, RpcError(INVALID_PARAMS, "No answer"))))
        else:
            if work.call.caller.peer.is_modern:
                result = {"resultType": "complete", **result}
            work.feed.put(sse(result_body(work.call.id, result)))
        work.feed.put(None)

    def _reconnection(self, call: McpCall) -> McpStream:
        """Close the stream before its end; the rest is read with Last-Event-ID."""
        cursor = f"reconnection-{call.id}"
        self._left[cursor] = result_body(call.id, text("Reconnected."))
        feed = QueueFeed()
        feed.put(f"id: {cursor}\nretry: 500\ndata: \n\n".encode())
        feed.put(None)
        return McpStream(feed)

    def _tool(self, name: str) -> Json:
        schema = SCHEMA_2020 if name == "json_schema_2020_12_tool" else NAMES
        return {"name": name, "description": name, "inputSchema": schema}


def _listed(uri: str) -> Json:
    kind = "image/png" if uri.endswith("binary") else "text/plain"
    return {"uri": uri, "name": uri, "description": uri, "mimeType": kind}


def _read(uri: object, *, is_modern: bool) -> Json:
    about: Json = {"uri": uri}
    match uri:
        case "test://static-text":
            said = "This is the content of the static text resource."
            return {"contents": [about | {"mimeType": "text/plain", "text": said}]}
        case "test://static-binary":
            return {"contents": [about | {"mimeType": "image/png", "blob": PNG}]}
        case str() if uri.startswith("test://template/"):
            id_ = uri.removeprefix("test://template/").removesuffix("/data")
            said = json.dumps({"id": id_, "templateTest": True, "data": f"Data for ID: {id_}"})
            return {"contents": [about | {"mimeType": "application/json", "text": said}]}
        case _:
            code = INVALID_PARAMS if is_modern else RESOURCE_NOT_FOUND
            raise RpcError(code, "Resource not found", data={"uri": uri})


PROMPTS: dict[str, list[str]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
}


def _prompt(name: str) -> Json:
    arguments = [{"name": one, "description": one, "required": True} for one in PROMPTS[name]]
    return {"name": name, "description": name, "arguments": arguments}


def _messages(params: Json) -> Json:
    given: Any = params.get("arguments") or {}
    match params.get("name"):
        case "test_simple_prompt":
            contents = [{"type": "text", "text": "This is a simple prompt for testing."}]
        case "test_prompt_with_arguments":
            said = f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"
            contents = [{"type": "text", "text": said}]
        case "test_prompt_with_embedded_resource":
            said = "Embedded resource content for testing."
            about = {"type": "text", "text": "Please process the embedded resource above."}
            contents = [_resource(given.get("resourceUri"), "text/plain", said), about]
        case "test_prompt_with_image":
            contents = [_IMAGE, {"type": "text", "text": "Please analyze the image above."}]
        case _:
            raise RpcError(INVALID_PARAMS, "Unknown prompt")
    return {"messages": [{"role": "user", "content": one} for one in contents]}
