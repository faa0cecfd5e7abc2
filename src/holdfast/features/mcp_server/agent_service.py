"""The agent as tools, tasks, resources and prompts of the Model Context Protocol."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias, cast

from msgspec import UNSET

from holdfast.features.mcp_server.bodies import RpcMessage
from holdfast.features.mcp_server.frames import task_detail
from holdfast.features.mcp_server.peer import TASKS, McpPeer
from holdfast.features.mcp_server.rpc import INVALID_PARAMS, MISSING_CAPABILITY, Json, RpcError
from holdfast.features.mcp_server.run_calls import RunCalls
from holdfast.features.mcp_server.service import McpCall, McpCaller, McpStream
from holdfast.features.mcp_server.sessions import COMPLETIONS_MAX, SessionViews
from holdfast.features.mcp_server.subscriptions import Subscriptions
from holdfast.features.mcp_server.tools import AgentTools, Answer
from holdfast.features.mcp_server.transport import McpRoutes, unknown_method
from holdfast.folds.rows import RunRow
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.model_names import AGENT_NAMES

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
    """Answers the requests of clients from the log; an McpService."""

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
            await self._calls.settled(caller, row, {str(message.id): message.result})

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
        await self._calls.settled(call.caller, row, cast("dict[str, object]", responses))
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
