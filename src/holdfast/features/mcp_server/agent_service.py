"""The agent as tools, tasks, resources and prompts of the Model Context Protocol.

Subscriptions of clients to sessions, and their notification streams. Up to 2025, a client subscribes in
separate requests. They're stored as a note under the id of the client's session, so they outlive this
process. Since 2026, the stream's request lists its subscriptions.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast
from weakref import WeakValueDictionary

import msgspec
from msgspec import UNSET
from typing_extensions import override

from holdfast.features.mcp_server.bodies import RpcMessage
from holdfast.features.mcp_server.frames import task_detail
from holdfast.features.mcp_server.peer import META, TASKS, McpPeer
from holdfast.features.mcp_server.rpc import (
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    Json,
    RpcError,
    notification,
    sse,
)
from holdfast.features.mcp_server.run_calls import RunCalls
from holdfast.features.mcp_server.service import McpCall, McpCaller, McpStream
from holdfast.features.mcp_server.sessions import COMPLETIONS_MAX, SessionViews, session_in
from holdfast.features.mcp_server.tools import AgentTools, Answer
from holdfast.features.mcp_server.transport import McpRoutes, unknown_method
from holdfast.folds.rows import RunRow
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.model_names import AGENT_NAMES
from holdfast.server.streams.feeds import SessionListChanges, SessionListFeed

SUBSCRIBED_MAX = 100
NOTES_MAX = 1_000
KEPT_MS = 7 * 86_400_000
_PREFIX = "mcp/subscriptions/"


class _Subscribed(msgspec.Struct):
    """The addresses that a client subscribed to, each with the seq of its session at that time."""

    at_ms: int
    uris: dict[str, int] = {}


class SubscriptionFeed(SessionListFeed):
    """Tells of changes to the sessions in `uris`; the addresses of each session by its id."""

    def __init__(self, changes: SessionListChanges, *, greeting: Sequence[Json], meta: Json) -> None:
        super().__init__(changes)
        self._greeting = ()
        self._pending = [sse(one) for one in greeting]
        self._meta = {"_meta": meta} if meta else {}
        self.uris: dict[str, set[str]] = {}

    def add(self, uri: str) -> None:
        """Tell of this address too."""
        self.uris.setdefault(session_in(uri) or "", set()).add(uri)

    def remove(self, uri: str) -> None:
        """Tell of it no more."""
        self.uris.get(session_in(uri) or "", set()).discard(uri)

    def tell(self, uris: Sequence[str]) -> None:
        """Say that these have changed."""
        self._pending += [sse(self._updated(uri)) for uri in uris]
        self.wake()

    @override
    async def more(self) -> Sequence[bytes] | None:
        if not self._pending:
            await super().more()
        pending, self._pending = self._pending, []
        return pending

    @override
    def ephemeral_frames(self, silent_s: float) -> Sequence[bytes]:
        ids = self._changes.ids_after(self._seen)
        self._seen = self._changes.number
        if ids is None:  # too far behind to know
            ids = list(self.uris)
        return [
            sse(self._updated(uri)) for id_ in dict.fromkeys(ids) for uri in sorted(self.uris.get(id_, ()))
        ]

    @override
    def next_check_s(self, silent_s: float) -> float | None:
        return None

    def _updated(self, uri: str) -> Json:
        return notification("notifications/resources/updated", {"uri": uri, **self._meta})


class Subscriptions:
    """Keeps what clients subscribed to, and makes their streams."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps
        self._open = WeakValueDictionary[str, SubscriptionFeed]()  # told at once what is subscribed

    async def subscribe(self, call: McpCall) -> Json:
        """`resources/subscribe`, up to 2025."""
        uri, key = _uri(call.params.get("uri")), _key(call.caller)
        known = await self._known(call.caller)
        if len(known.uris) >= SUBSCRIBED_MAX and uri not in known.uris:
            raise RpcError(INVALID_PARAMS, f"A client can subscribe to up to {SUBSCRIBED_MAX} resources")
        if not known.uris:
            await self._drop_old()
        known.uris[uri] = await self._deps.store.last_seq(session_in(uri) or "")
        known.at_ms = self._deps.clock.now_ms()
        await self._deps.store.put_note(key, msgspec.json.encode(known))
        if (feed := self._open.get(key)) is not None:
            feed.add(uri)
        return {}

    async def unsubscribe(self, call: McpCall) -> Json:
        """`resources/unsubscribe`, up to 2025."""
        uri, key = _uri(call.params.get("uri")), _key(call.caller)
        known = await self._known(call.caller)
        if known.uris.pop(uri, None) is not None:
            await self._deps.store.put_note(key, msgspec.json.encode(known))
        if (feed := self._open.get(key)) is not None:
            feed.remove(uri)
        return {}

    async def listening(self, caller: McpCaller) -> McpStream:
        """The stream of a client up to 2025: what it subscribed to, before and after."""
        feed = SubscriptionFeed(self._deps.list_changes, greeting=(), meta={})
        if caller.peer.session:
            self._open[_key(caller)] = feed
            known = await self._known(caller)
            for uri in known.uris:
                feed.add(uri)
            # It may have missed changes while it had no stream.
            last = {uri: await self._deps.store.last_seq(session_in(uri) or "") for uri in known.uris}
            feed.tell([uri for uri, seq in known.uris.items() if last[uri] > seq])
        return McpStream(feed)

    async def listen(self, call: McpCall) -> McpStream:
        """`subscriptions/listen`, since 2026."""
        wanted = call.params.get("notifications")
        if not isinstance(wanted, dict):
            raise RpcError(INVALID_PARAMS, "Missing 'notifications'")
        given: Any = cast("Json", wanted).get("resourceSubscriptions", [])
        if not isinstance(given, list) or len(cast("list[Any]", given)) > SUBSCRIBED_MAX:
            text = f"'resourceSubscriptions' must be a list of up to {SUBSCRIBED_MAX} URIs"
            raise RpcError(INVALID_PARAMS, text)
        uris = [_uri(one) for one in cast("list[Any]", given)]
        meta: Json = {f"{META}subscriptionId": call.id}
        agreed: Json = {"resourceSubscriptions": uris} if uris else {}
        greeting = {"notifications": agreed, "_meta": meta}
        method = "notifications/subscriptions/acknowledged"
        feed = SubscriptionFeed(self._deps.list_changes, greeting=[notification(method, greeting)], meta=meta)
        for uri in uris:
            feed.add(uri)
        return McpStream(feed)

    async def _known(self, caller: McpCaller) -> _Subscribed:
        if not caller.peer.session:
            raise RpcError(INVALID_PARAMS, "Send the header Mcp-Session-Id returned by 'initialize'")
        note = await self._deps.store.note(_key(caller))
        if note is None:
            return _Subscribed(self._deps.clock.now_ms())
        return msgspec.json.decode(note, type=_Subscribed)

    async def _drop_old(self) -> None:
        """Forget clients that haven't subscribed to anything for long, and the oldest of too many."""
        notes = await self._deps.store.notes(_PREFIX)
        ages = sorted((msgspec.json.decode(note, type=_Subscribed).at_ms, key) for key, note in notes.items())
        too_many = max(0, len(ages) - NOTES_MAX + 1)
        before_ms = self._deps.clock.now_ms() - KEPT_MS
        for at, (at_ms, key) in enumerate(ages):
            if at < too_many or at_ms < before_ms:
                await self._deps.store.drop_note(key)


def _key(caller: McpCaller) -> str:
    """Return the name of the client's note, which is separate for each key."""
    by: str = caller.scope[KEY_NAME]
    return f"{_PREFIX}{caller.peer.session}/{by}"


def _uri(given: object) -> str:
    if not isinstance(given, str) or session_in(given) is None:
        raise RpcError(INVALID_PARAMS, "'uri' must be the URI of a session: holdfast://sessions/ID")
    return given


INSTRUCTIONS = (
    "Holdfast runs an AI agent with its own tools and workspace. `run_agent` sends it a task and returns "
    "its answer. To continue a conversation, pass `session_id` from an earlier result. The status "
    "waiting_for_approval means that a person must decide before the agent continues."
)
AGENT = AGENT_NAMES[0]
_PROMPT: Json = {
    "name": AGENT,
    "title": "Send Holdfast a task",
    "description": "Have the agent do a task and report its answer.",
    "arguments": [
        {"name": "task", "description": "The task for the agent.", "required": True},
        {"name": "session_id", "description": "The session to continue.", "required": False},
    ],
}

_Method: TypeAlias = Callable[[McpCall], Awaitable[Answer]]


class AgentService:
    """Answers the requests of clients from the log; each method may raise an RpcError or a Problem.

    The transport itself does `initialize`, `server/discover` and `ping`.
    """

    def __init__(self, deps: RouteDeps, calls: RunCalls) -> None:
        self._deps = deps
        self._calls = calls
        self._sessions = SessionViews(deps)
        self._tools = AgentTools(deps, calls, self._sessions)
        self._subscriptions = Subscriptions(deps)
        self._methods: Mapping[str, _Method] = {
            "tools/list": self._list_tools,
            "tools/call": self._tools.call,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
        }
        self._handshake_methods: Mapping[str, _Method] = {
            "resources/subscribe": self._subscriptions.subscribe,
            "resources/unsubscribe": self._subscriptions.unsubscribe,
        }
        self._modern_methods: Mapping[str, _Method] = {
            "subscriptions/listen": self._subscriptions.listen,
            "tasks/get": self._get_task,
            "tasks/update": self._update_task,
            "tasks/cancel": self._cancel_task,
        }

    @property
    def instructions(self) -> str:
        """Return the instructions for a model."""
        return INSTRUCTIONS

    def capabilities(self, peer: McpPeer) -> Json:
        """Return the server's capabilities for this client."""
        offered: Json = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "completions": {}}
        return offered | ({"extensions": {TASKS: {}}} if peer.is_modern else {})

    async def call(self, call: McpCall) -> Answer:
        """The result of a request, or the stream that ends with it."""
        of_version = self._modern_methods if call.caller.peer.is_modern else self._handshake_methods
        do = self._methods.get(call.method) or of_version.get(call.method)
        if do is None:
            raise unknown_method(call.method)
        return await do(call)

    async def notified(self, caller: McpCaller, method: str, params: Json) -> None:
        """Only a cancellation needs something done."""
        rpc_id = params.get("requestId")
        if method == "notifications/cancelled" and isinstance(rpc_id, int | str):
            await self._calls.cancelled(caller, rpc_id)

    async def answered(self, caller: McpCaller, message: RpcMessage) -> None:
        """The answer to a form; it names the approval or question that it settles."""
        ask = await self._deps.store.ask(str(message.id))
        row = None if ask is None else await self._deps.store.run(ask.run_id)
        if row is None:
            return
        # A form that wasn't shown isn't consent, so the run keeps waiting.
        if message.result is not UNSET:
            await self._calls.resolve(caller, row, {str(message.id): message.result})

    async def resumed(self, caller: McpCaller) -> McpStream:
        """The rest of a stream."""
        return await self._calls.resumed(caller)

    async def listening(self, caller: McpCaller) -> McpStream:
        """Changes of the resources that the client has subscribed to."""
        return await self._subscriptions.listening(caller)

    async def _list_tools(self, call: McpCall) -> Json:
        _check_cursor(call)
        return self._tools.listed()

    async def _list_resources(self, call: McpCall) -> Json:
        return await self._sessions.listed(_cursor(call))

    async def _list_templates(self, call: McpCall) -> Json:
        _check_cursor(call)
        return self._sessions.templates()

    async def _read_resource(self, call: McpCall) -> Json:
        return await self._sessions.read(call.params.get("uri"), is_modern=call.caller.peer.is_modern)

    async def _list_prompts(self, call: McpCall) -> Json:
        _check_cursor(call)
        return {"prompts": [_PROMPT]}

    async def _get_prompt(self, call: McpCall) -> Json:
        given = call.params.get("arguments")
        fields = cast("Json", given) if isinstance(given, dict) else {}
        task, session = fields.get("task"), fields.get("session_id") or ""
        if call.params.get("name") != AGENT:
            raise RpcError(INVALID_PARAMS, f"Unknown prompt: {str(call.params.get('name'))[:100]}")
        if not isinstance(task, str) or not task.strip() or not isinstance(session, str):
            raise RpcError(INVALID_PARAMS, "Missing 'task': describe what the agent should do")
        of_session = f" Pass the session_id {session}." if session else ""
        text = (
            "Use the tool run_agent to have the Holdfast agent do the following task. Pass the task "
            f"unchanged.{of_session} Then tell me its answer. If it needs an approval, show me what it "
            f"wants to do, and ask me before you answer.\n\nTask: {task}"
        )
        content = {"type": "text", "text": text}
        return {"description": "A task for Holdfast", "messages": [{"role": "user", "content": content}]}

    async def _complete(self, call: McpCall) -> Json:
        """Sessions that fit what is typed; nothing else here has a list to choose from."""
        given = call.params.get("argument")
        argument = cast("Json", given) if isinstance(given, dict) else {}
        name, typed = argument.get("name"), argument.get("value")
        if not isinstance(name, str) or not isinstance(typed, str):
            raise RpcError(INVALID_PARAMS, "'argument' must have a 'name' and a 'value'")
        values = await self._sessions.matching(typed) if name == "session_id" else []
        return {"completion": {"values": values, "hasMore": len(values) == COMPLETIONS_MAX}}

    async def _get_task(self, call: McpCall) -> Json:
        row = await self._task(call)
        run = await self._deps.folds.run(row)
        return task_detail(run, row, asks=self._calls.open_asks(call.caller, run))

    async def _update_task(self, call: McpCall) -> Json:
        row = await self._task(call)
        responses = call.params.get("inputResponses")
        if not isinstance(responses, dict):
            raise RpcError(INVALID_PARAMS, "Missing 'inputResponses'")
        await self._calls.resolve(call.caller, row, cast("dict[str, object]", responses))
        return {}

    async def _cancel_task(self, call: McpCall) -> Json:
        row = await self._task(call)
        await self._deps.inbox.stop(row.session_id, row.run_id, by=call.caller.scope[KEY_NAME])
        return {}

    async def _task(self, call: McpCall) -> RunRow:
        _check_tasks(call)
        task_id = call.params.get("taskId")
        row = await self._deps.store.run(task_id) if isinstance(task_id, str) else None
        if row is None:
            raise RpcError(INVALID_PARAMS, f"Unknown task: {str(task_id)[:100]}")
        return row


class AgentRoutes(McpRoutes):
    """The routes of /mcp, with the agent behind them."""

    def __init__(self, parts: RouteParts) -> None:
        deps = parts.deps
        calls = RunCalls(deps, parts.runs, parts.disconnects)
        super().__init__(AgentService(deps, calls), deps.streams, deps.limits)


def _check_tasks(call: McpCall) -> None:
    if not call.caller.peer.has_tasks:
        data: Json = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise RpcError(MISSING_CAPABILITY, "The request doesn't declare the tasks extension", data=data)


def _cursor(call: McpCall) -> str:
    cursor = call.params.get("cursor") or ""
    if not isinstance(cursor, str):
        raise RpcError(INVALID_PARAMS, "'cursor' must be text")
    return cursor


def _check_cursor(call: McpCall) -> None:
    """Raise an RpcError for a cursor where there is only one page."""
    if _cursor(call):
        raise RpcError(INVALID_PARAMS, "'cursor' is invalid: there is only one page")
