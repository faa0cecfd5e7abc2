"""The tools: run the agent, answer it, look at runs and sessions."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from http import HTTPStatus
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from holdfast import events as e
from holdfast.api.runs import Accepted
from holdfast.features.mcp_server import bodies as api
from holdfast.features.mcp_server.frames import run_result, tool_result, waiting_result
from holdfast.features.mcp_server.rpc import INVALID_PARAMS, Json, RpcError
from holdfast.features.mcp_server.run_calls import RunCalls
from holdfast.features.mcp_server.service import McpCall, McpStream
from holdfast.features.mcp_server.sessions import SessionViews
from holdfast.interfaces.journal import KeyConflict, Replayed
from holdfast.runner.inbox import IncomingMessage, NotSent, Sent
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.access.request_secrets import without_secrets as problem_without_secrets
from holdfast.server.deps import RouteDeps
from holdfast.server.message_content import without_secrets
from holdfast.server.problems import Problem
from holdfast.server.runs.requests import accepted, not_sent
from holdfast.server.runs.runs import known_run
from holdfast.server.transport.bodies import converted
from holdfast.server.transport.once import earlier_response, replayed

Answer: TypeAlias = Json | McpStream
_READS = {"readOnlyHint": True, "openWorldHint": False}
_CHANGES = {"readOnlyHint": False, "destructiveHint": True}
_ADDS = {"readOnlyHint": False, "destructiveHint": False}
_OUTPUT: Json = {
    "type": "object",
    "properties": {
        "session_id": {"type": "string"},
        "run_id": {"type": "string"},
        "status": {"type": "string"},
        "outcome": {"type": "string"},
        "code": {"type": "string"},
        "ask": {"type": "object"},
    },
}


class _Tool(Struct, frozen=True):
    """A tool: its arguments, function and description."""

    arguments: type[msgspec.Struct]
    call: Callable[[McpCall, Any], Awaitable[Answer]]
    description: str
    hints: Mapping[str, bool]
    output: Json | None = None


class AgentTools:
    """The tools for other agents."""

    def __init__(self, deps: RouteDeps, calls: RunCalls, sessions: SessionViews) -> None:
        self._deps = deps
        self._calls = calls
        self._tools: Mapping[str, _Tool] = {
            "run_agent": _Tool(
                api.RunAgentArguments,
                calls.run,
                "Send the agent a task and get its answer. It works independently with its own tools, so "
                "this can take minutes.",
                _CHANGES,
                _OUTPUT,
            ),
            "answer": _Tool(
                api.AnswerArguments,
                calls.answer,
                "Answer a pending approval or question by its id, and get the run's next result. Approve "
                "only actions the user has agreed to.",
                _CHANGES,
                _OUTPUT,
            ),
            "get_run": _Tool(
                api.RunArguments,
                self._show,
                "Show a run's status, and its answer if it has ended.",
                _READS,
            ),
            "stop_run": _Tool(api.StopArguments, self._stop, "Stop a run and everything it started.", _ADDS),
            "send_message": _Tool(
                api.SendArguments,
                self._send,
                "Send a message to the agent during a run. It reads the message before its next step.",
                _ADDS,
            ),
            "list_sessions": _Tool(
                api.ListSessionsArguments,
                sessions.list_tool,
                "List the agent's sessions, newest first, or search them.",
                _READS,
            ),
            "read_session": _Tool(
                api.ReadSessionArguments,
                sessions.read_tool,
                "Read the newest entries of a session's transcript.",
                _READS,
            ),
        }

    def listed(self) -> Json:
        """`tools/list`."""
        return {"tools": [_listed(name, tool) for name, tool in self._tools.items()]}

    async def call(self, call: McpCall) -> Answer:
        """`tools/call`."""
        name, given = call.params.get("name"), call.params.get("arguments")
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {str(name)[:100]}")
        try:
            # The model gets its mistakes as results, so it can correct them.
            return await tool.call(call, converted(given or {}, tool.arguments, param="arguments"))
        except Problem as problem:
            if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            told = problem_without_secrets(problem)
            about: Json = {"code": told.code} | ({"param": told.param} if told.param else {})
            return tool_result(told.message, about, is_error=True)

    async def _show(self, call: McpCall, given: api.RunArguments) -> Json:
        row = await known_run(self._deps, given.run_id)
        run = await self._deps.folds.run(row)
        if run.state.outcome is not None:
            return run_result(run, row) | {"isError": False}
        for ask in run.state.open_person_asks:
            if isinstance(ask.asked, e.ApprovalAsked | e.QuestionAsked):
                can_answer = isinstance(ask.asked, e.QuestionAsked) or self._calls.may_approve(call.caller)
                return waiting_result(ask.asked, row, can_answer=can_answer)
        about: Json = {"session_id": row.session_id, "run_id": row.run_id, "status": str(run.state.status)}
        return tool_result(f"The run is {run.state.status}. So far:\n\n{run.output}", about)

    async def _stop(self, call: McpCall, given: api.StopArguments) -> Json:
        row = await known_run(self._deps, given.run_id)
        by: str = call.caller.scope[KEY_NAME]
        stopped = await self._deps.inbox.stop(row.session_id, row.run_id, by=by)
        about: Json = {"session_id": row.session_id, "run_id": row.run_id}
        text = "The run is being stopped." if stopped else "The run had already ended."
        return tool_result(text, about | {"status": "stopping" if stopped else "ended"})

    async def _send(self, call: McpCall, given: api.SendArguments) -> Json:
        row = await known_run(self._deps, given.run_id)
        await self._deps.workspaces.check_run(row)
        key = self._calls.once_key(call, given)
        if (earlier := await earlier_response(key, self._deps, status=200)) is not None:
            return _sent(msgspec.json.decode(earlier.body, type=Accepted))
        once = key.for_sent(accepted) if key else None
        message = await without_secrets(IncomingMessage(text=given.message), self._deps.redactor)
        steer = self._deps.inbox.steer
        sent = await steer(row.session_id, row.run_id, message=message, mode="steer", once=once)
        match sent:
            case Sent():
                return _sent(accepted(sent))
            case NotSent():
                raise not_sent(sent)
            case Replayed() | KeyConflict():
                return _sent(msgspec.json.decode(replayed(sent, status=200).body, type=Accepted))


def _sent(sent: Accepted) -> Json:
    about = {"session_id": sent.session_id, "run_id": sent.run_id, "message_id": sent.message_id}
    return tool_result("The agent will read the message before its next step.", about)


def _listed(name: str, tool: _Tool) -> Json:
    shown: Json = {
        "name": name,
        "description": tool.description,
        "inputSchema": _schema(tool.arguments),
        "annotations": dict(tool.hints),
    }
    return shown if tool.output is None else shown | {"outputSchema": tool.output}


@cache
def _schema(kind: type[msgspec.Struct]) -> Json:
    """The JSON schema of a tool's arguments."""
    _, definitions = msgspec.json.schema_components([kind])
    schema = definitions[kind.__name__]
    return {name: value for name, value in schema.items() if name not in {"title", "description"}}
