"""One connection to an MCP server: handshake, list of tools, calls, the server's requests, and its end.

Calls that a server runs as tasks: it answers with a handle, which is polled until there is a result. There
are two forms. In revision 2025-11-25 the client asks for a task, because the tool says that it needs one, and
fetches the result separately. Since 2026-07-28 tasks are an extension: the server decides, and the task
itself carries its result or what it waits for.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, cast

from mcp import ClientSession, MCPError
from mcp.client.context import ClientRequestContext
from mcp.client.subscriptions import listen
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    CreateTaskResult,
    ElicitRequestParams,
    ElicitResult,
    EmptyResult,
    ErrorData,
    GetTaskPayloadRequest,
    GetTaskPayloadRequestParams,
    Implementation,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    ListRootsResult,
    PaginatedRequestParams,
    Request,
    RequestParams,
    Result,
    Root,
    TaskStatus,
    Tool,
    methods,
)
from mcp.types.jsonrpc import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct
from pydantic import Field, TypeAdapter, ValidationError

from holdfast import __version__
from holdfast.config.mcp_servers import McpServerConfig
from holdfast.features.mcp_client.flow import CUT_OFF, NOT_SENT, Incoming, Metered, Outgoing
from holdfast.features.mcp_client.forms import BadForm
from holdfast.features.mcp_client.open_call import CURRENT_CALL, OpenCall
from holdfast.features.mcp_client.tool_specs import plain
from holdfast.tools.offload import join

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


PAGES_MAX = 50
TOOLS_MAX = 256
ROUNDS_MAX = 20  # in which a server asks for more input for one call
_HEADER_MISMATCH = -32020
# How servers that speak only the newest revision answer a greeting of the older ones.
NOT_GREETED_SO = frozenset({METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION, _HEADER_MISMATCH, INVALID_PARAMS})
_LIST = "tools/list"
_WAIT_S = 0.25  # before a call is repeated that the server wants repeated without input
Answer: TypeAlias = CallToolResult
_ANSWER = cast("TypeAdapter[CallToolResult]", TypeAdapter(CallToolResult | InputRequiredResult | TaskState))


class WantedCall(Struct, frozen=True):
    """A call: the server's own name of a tool, and its arguments."""

    tool: str
    args: Mapping[str, object]
    as_task: bool = False  # the tool works in no other way


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    """Passes tool lists through `readable`, because the SDK rejects a whole list for one invalid tool."""

    def __init__(
        self,
        source: Metered,
        outgoing: Outgoing,
        *,
        readable: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> None:
        super().__init__(source, outgoing)
        self._readable = readable

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> dict[str, Any]:
        result = await super().send_raw_request(method, params, opts, **more)
        return self._readable(result) if method == _LIST else result


class McpConnection:
    """An SDK session and its state; one task, its owner, enters and leaves it.

    `news` tells the owner that one of the flags has changed.
    """

    def __init__(self, config: McpServerConfig, *, workspace: Path) -> None:
        self.news = asyncio.Event()
        self.over = ""  # why it is over
        self.tools_changed = False
        self.entered = False  # it answered once
        self.suspect = False  # a call was given up, so the server may be hanging
        self.calls: set[asyncio.Task[Answer]] = set()
        self.unreadable: list[str] = []  # tools of the newest list that aren't valid, each with the reason
        self._config = config
        self._workspace = workspace
        self._open: list[OpenCall] = []
        self._buried = asyncio.Event()
        self._session: ClientSession | None = None
        self._dispatcher: _Dispatcher | None = None

    async def enter(
        self, stack: AsyncExitStack, *, incoming: Incoming, outgoing: Outgoing
    ) -> tuple[Tool, ...]:
        """Do the handshake and ask for the tools; the stack closes what this opens."""
        stream = Metered(incoming, tools_changed=self._note_change, over=lambda: self.end("it hung up"))
        self._dispatcher = _Dispatcher(stream, outgoing, readable=self._readable)
        session = ClientSession(
            dispatcher=self._dispatcher,
            extensions={EXTENSION: {}},
            client_info=Implementation(name="holdfast", version=__version__),
            elicitation_callback=self._elicited,
            list_roots_callback=self._roots if self._config.roots == "workspace" else None,
        )
        self._session = await stack.enter_async_context(session)
        await _greeted(session)
        tools = await self.listed()
        capabilities = session.server_capabilities
        changing = capabilities and capabilities.tools and capabilities.tools.list_changed
        if changing and session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            # A server of this era tells of changes only where somebody listens; `Metered` hears them.
            await stack.enter_async_context(listen(session, tools_list_changed=True))
        self.entered = True
        return tools

    def end(self, why: str) -> None:
        """Mark it as over; the first reason is kept."""
        self.over = self.over or why
        self.news.set()

    def bury(self, why: str) -> None:
        """Set how it ended, now that everything is known."""
        self.over = why
        self._buried.set()

    async def epitaph(self, *, within_s: float) -> str:
        """Why it is over, as far as known within that time; empty if it is not over."""
        if self.over:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._buried.wait()
        return self.over

    def _note_change(self) -> None:
        self.tools_changed = True
        self.news.set()

    async def listed(self) -> tuple[Tool, ...]:
        """The server's tools from all pages, up to a limit."""
        session = self.session
        self.unreadable = []
        tools: list[Tool] = []
        cursor: str | None = None
        for _ in range(PAGES_MAX):
            params = PaginatedRequestParams(cursor=cursor) if cursor is not None else None
            with self.noting_the_end():
                page = await session.list_tools(params=params)
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None or len(tools) >= TOOLS_MAX:
                break
        return tuple(tools[:TOOLS_MAX])

    def _readable(self, page: dict[str, Any]) -> dict[str, Any]:
        """Return a page of tools without the invalid ones, which are noted."""
        listed = page.get("tools")
        if not isinstance(listed, list) or not self._problem(page):
            return page
        kept: list[object] = []
        for tool in cast("list[object]", listed)[:TOOLS_MAX]:
            if problem := self._problem({**page, "tools": [tool]}):
                name = cast("dict[str, object]", tool).get("name") if isinstance(tool, dict) else None
                self.unreadable.append(
                    f"{plain(str(name or 'a tool without a name'), chars_max=100)}: {problem}"
                )
            else:
                kept.append(tool)
        return {**page, "tools": kept}

    def _problem(self, page: Mapping[str, Any]) -> str:
        """Describe what is invalid in a page of tools; empty if nothing is."""
        try:
            methods.validate_server_result(_LIST, str(self.session.protocol_version), page)
        except ValidationError as error:
            for wrong in error.errors(include_url=False, include_context=False, include_input=False):
                if wrong["loc"][:1] == ("tools",):
                    place = ".".join(str(part) for part in wrong["loc"][2:]) or "declaration"
                    return plain(f"its {place} is invalid: {wrong['msg']}", chars_max=200)
        except (KeyError, ValueError):  # a revision that the SDK doesn't check
            return ""
        return ""

    async def answers(self) -> bool:
        """Whether the server responds at all."""
        try:
            await self.session.send_ping()
        except MCPError as error:
            return error.code not in {NOT_SENT, CUT_OFF, CONNECTION_CLOSED}
        except ValueError:
            return True  # nonsense is an answer too
        return True

    def call(self, wanted: WantedCall, opened: OpenCall, *, progress: ProgressFnT) -> asyncio.Task[Answer]:
        """Start a call; its task raises MCPError, or ValueError for an invalid response."""
        context = copy_context()
        context.run(CURRENT_CALL.set, opened)
        called = self._called(wanted, opened, progress=progress)
        task = asyncio.create_task(called, name=f"mcp call {wanted.tool[:40]}", context=context)
        self.calls.add(task)
        task.add_done_callback(self.calls.discard)
        self._open.append(opened)
        task.add_done_callback(lambda _: self._open.remove(opened))
        return task

    async def give_up(self, call: asyncio.Task[Answer], *, within_s: float) -> None:
        """Send a cancellation to the server, with a time limit."""
        call.cancel()
        self.suspect = True
        self.news.set()
        await join(call, within_s=within_s)

    async def _called(self, wanted: WantedCall, opened: OpenCall, *, progress: ProgressFnT) -> Answer:
        if self.over:
            raise MCPError(NOT_SENT, self.over)
        is_legacy = self.session.protocol_version not in MODERN_PROTOCOL_VERSIONS
        if wanted.as_task and is_legacy:
            task = await self._task_of(wanted)
            return await self._followed(task, opened, is_extension=False, progress=progress)
        params = CallToolRequestParams(name=wanted.tool, arguments=dict(wanted.args))
        for turn in range(ROUNDS_MAX):
            answer = await self._sent(params, progress=progress, is_first=turn == 0)
            if isinstance(answer, CallToolResult):
                return answer
            if isinstance(answer, TaskState):
                return await self._followed(answer, opened, is_extension=True, progress=progress)
            if not answer.input_requests:
                await asyncio.sleep(_WAIT_S)
            responses = {
                key: await self.input_response(one, opened)
                for key, one in (answer.input_requests or {}).items()
            }
            params = CallToolRequestParams(
                name=wanted.tool,
                arguments=dict(wanted.args),
                input_responses=responses or None,
                request_state=answer.request_state,
            )
        raise MCPError(INVALID_REQUEST, f"it requested more input {ROUNDS_MAX} times")

    async def _sent(
        self, params: CallToolRequestParams, *, progress: ProgressFnT, is_first: bool
    ) -> CallToolResult | InputRequiredResult | TaskState:
        # Not session.call_tool: that checks the result against the server's own schema, on this loop, with
        # whatever regular expressions are in it.
        request = CallToolRequest(params=params)
        try:
            with self.noting_the_end():
                return await self.session.send_request(request, _ANSWER, progress_callback=progress)
        except MCPError as error:
            if error.code == NOT_SENT and not is_first:
                raise MCPError(CUT_OFF, error.message) from error  # it has seen the call before
            raise

    async def _task_of(self, wanted: WantedCall) -> TaskState:
        """Call a tool that must be called as a task; the SDK takes no such answer for one to a call."""
        assert self._dispatcher is not None, "it is entered first"
        params = {"name": wanted.tool, "arguments": dict(wanted.args), "task": {"ttl": TTL_MS}}
        headers = {MCP_PROTOCOL_VERSION_HEADER: self.session.protocol_version or ""}
        with self.noting_the_end():
            raw = await self._dispatcher.send_raw_request("tools/call", params, {"headers": headers})
        return handle_of(raw)

    async def _followed(
        self, task: TaskState, opened: OpenCall, *, is_extension: bool, progress: ProgressFnT
    ) -> Answer:
        opened.task_id = task.task_id
        shown = plain(task.task_id, chars_max=200)
        await opened.call.say(f"The server runs this as task {shown}.\n", stream="progress")
        follower = TaskFollower(
            self.session, ask=lambda one: self.input_response(one, opened), progress=progress
        )
        return await follower.result(task, is_extension=is_extension)

    async def input_response(self, wanted: InputRequest, opened: OpenCall) -> InputResponse:
        """The answer to what the server wants to know for a call; raises MCPError."""
        context = ClientRequestContext(session=self.session, request_id="input")
        before = CURRENT_CALL.set(opened)
        try:
            response = await self.session.dispatch_input_request(context, wanted)
        finally:
            CURRENT_CALL.reset(before)
        if isinstance(response, ErrorData):
            raise MCPError.from_error_data(response)
        return response

    async def _elicited(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        del context
        asking = self._asking()
        if asking is None:
            why = "Holdfast prompts users only for tool calls, and can't tell which call this is for"
            return ErrorData(code=INVALID_REQUEST, message=why)
        try:
            return await asking.elicit(params)
        except BadForm as error:
            return ErrorData(code=INVALID_REQUEST, message=f"Holdfast can't show this: {error}")

    async def _roots(self, context: ClientRequestContext) -> ListRootsResult:
        del context
        asking = self._asking()
        workspace = asking.call.workspace if asking else self._workspace
        return ListRootsResult(roots=[Root(uri=workspace.absolute().as_uri(), name=workspace.name)])  # pyright: ignore[reportArgumentType]

    def _asking(self) -> OpenCall | None:
        """The call that a request of the server belongs to; None rather than a guess.

        Over HTTP the request arrives on the call's own stream. Elsewhere nothing says which call it is for:
        a person of one session must not see, or answer, what was asked for another.
        """
        current = CURRENT_CALL.get()
        if current in self._open:
            return current
        sessions = {one.call.session_id for one in self._open}
        return self._open[-1] if len(sessions) == 1 else None

    @contextmanager
    def noting_the_end(self) -> Generator[None]:
        """Note that the server is gone if a request could not be sent."""
        try:
            yield
        except MCPError as error:
            if error.code == NOT_SENT:
                self.end(error.message)
            raise

    @property
    def session(self) -> ClientSession:
        """The SDK's session, which is there once it is entered."""
        assert self._session is not None, "it is entered first"
        return self._session


async def _greeted(session: ClientSession) -> None:
    try:
        await session.initialize()
    except MCPError as error:
        # Old servers take a first message that is not this greeting badly, so the newer one comes second.
        if error.code not in NOT_GREETED_SO:
            raise
        await session.discover()
