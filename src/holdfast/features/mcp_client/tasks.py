"""Calls that a server runs as tasks: it answers with a handle, which is polled until there is a result.

There are two forms. In revision 2025-11-25 the client asks for a task, because the tool says that it needs
one, and fetches the result separately. Since 2026-07-28 tasks are an extension: the server decides, and the
task itself carries its result or what it waits for.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import ProgressFnT
from mcp.types import (
    CallToolResult,
    CreateTaskResult,
    EmptyResult,
    GetTaskPayloadRequest,
    GetTaskPayloadRequestParams,
    InputRequest,
    InputResponse,
    Request,
    RequestParams,
    Result,
    TaskStatus,
)
from mcp.types.jsonrpc import INTERNAL_ERROR
from pydantic import Field

from holdfast.features.mcp_client.flow import CUT_OFF, NOT_SENT

EXTENSION = "io.modelcontextprotocol/tasks"
TTL_MS = 24 * 3_600_000
_POLL_S, _POLL_MIN_S, _POLL_MAX_S = 1.0, 0.1, 10.0
_CANCEL_S = 0.8

AskInput: TypeAlias = Callable[[InputRequest], Awaitable[InputResponse]]


class TaskState(Result):
    """A task as either form describes it."""

    task_id: str = Field(alias="taskId")
    status: TaskStatus
    status_message: str | None = Field(default=None, alias="statusMessage")
    poll_interval_ms: float | None = Field(default=None, alias="pollIntervalMs")
    poll_interval: float | None = Field(default=None, alias="pollInterval")
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: dict[str, InputRequest] | None = Field(default=None, alias="inputRequests")

    @property
    def poll_s(self) -> float:
        """How long to wait before the next look."""
        wanted_ms = self.poll_interval_ms or self.poll_interval
        return min(max(wanted_ms / 1000 if wanted_ms else _POLL_S, _POLL_MIN_S), _POLL_MAX_S)


class _TaskParams(RequestParams):
    task_id: str = Field(alias="taskId")
    input_responses: dict[str, InputResponse] | None = Field(default=None, alias="inputResponses")


class _TaskRequest(Request[_TaskParams, Literal["tasks/get", "tasks/update", "tasks/cancel"]]):
    name_param: ClassVar[str | None] = "taskId"

    method: Literal["tasks/get", "tasks/update", "tasks/cancel"]
    params: _TaskParams


def handle_of(raw: Mapping[str, Any]) -> TaskState:
    """The task that an answer to a call describes; raises ValueError."""
    if "task" in raw:
        return TaskState.model_validate(CreateTaskResult.model_validate(raw).task.model_dump(by_alias=True))
    return TaskState.model_validate(raw)


class TaskFollower:
    """Follows one task to its end; if that is cancelled, so is the task."""

    def __init__(self, session: ClientSession, *, ask: AskInput, progress: ProgressFnT) -> None:
        self._session = session
        self._ask = ask
        self._progress = progress
        self._answered: set[str] = set()

    async def result(self, task: TaskState, *, is_extension: bool) -> CallToolResult:
        """Return the task's result; raises MCPError."""
        try:
            while task.status == "working":
                await self._progress(0, None, task.status_message or "working")
                await asyncio.sleep(task.poll_s)
                task = await self._looked_at(task)
            if not is_extension:
                return await self._fetched(task)
            while task.status in {"working", "input_required"}:
                await self._answer(task)
                await asyncio.sleep(task.poll_s)
                task = await self._looked_at(task)
            return _ended(task)
        except asyncio.CancelledError:
            await self._cancel(task)
            raise
        except MCPError as error:
            # The server has received the call, even if polling it fails.
            if error.code == NOT_SENT:
                raise MCPError(CUT_OFF, error.message) from error
            raise

    async def _looked_at(self, task: TaskState) -> TaskState:
        request = _TaskRequest(method="tasks/get", params=_TaskParams(taskId=task.task_id))
        return await self._session.send_request(request, TaskState)

    async def _fetched(self, task: TaskState) -> CallToolResult:
        """The result in the older form; a task that waits for input asks for it meanwhile."""
        params = GetTaskPayloadRequestParams(task_id=task.task_id)
        return await self._session.send_request(GetTaskPayloadRequest(params=params), CallToolResult)

    async def _answer(self, task: TaskState) -> None:
        wanted = {key: one for key, one in (task.input_requests or {}).items() if key not in self._answered}
        if not wanted:
            return
        self._answered |= wanted.keys()
        params = _TaskParams(
            taskId=task.task_id, inputResponses={key: await self._ask(one) for key, one in wanted.items()}
        )
        await self._session.send_request(_TaskRequest(method="tasks/update", params=params), EmptyResult)

    async def _cancel(self, task: TaskState) -> None:
        request = _TaskRequest(method="tasks/cancel", params=_TaskParams(taskId=task.task_id))
        try:
            async with asyncio.timeout(_CANCEL_S):
                await self._session.send_request(request, Result)
        except (MCPError, ValueError, TimeoutError):
            return  # best effort, and the call's outcome is unknown anyway


def _ended(task: TaskState) -> CallToolResult:
    if task.status == "completed" and task.result is not None:
        return CallToolResult.model_validate(task.result)
    if task.status == "cancelled":
        raise MCPError(INTERNAL_ERROR, "the server cancelled the task")
    said = (task.error or {}).get("message") or task.status_message or "the task failed"
    raise MCPError(INTERNAL_ERROR, str(said))
