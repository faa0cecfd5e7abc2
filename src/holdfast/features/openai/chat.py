"""Chat Completions as a view of a run."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

from msgspec import UNSET, Struct, to_builtins
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import override

from holdfast import events as e
from holdfast.features.openai.bodies import (
    ChatChoice,
    ChatCompletion,
    ChatFunction,
    ChatMessage,
    ChatRequest,
    ChatUsage,
    OutputTokensDetails,
    PromptTokensDetails,
    ToolCallShown,
)
from holdfast.features.openai.chats import chat_of, grace_s, session_of
from holdfast.features.openai.models import sampling_of
from holdfast.features.openai.parameters import CHAT, chat_output, ignored_fields, ignored_header
from holdfast.features.openai.shapes import (
    BREAK,
    OpenAIFeed,
    OpenAIStream,
    RunStreamView,
    encode,
    failed_response,
    page_of,
    problem_of_run,
    response_failed,
    run_failed,
    settings_of,
    source_of,
    waiting_shown,
    waiting_text,
)
from holdfast.features.openai.shared_routes import SharedRoutes
from holdfast.folds.rows import RunRow
from holdfast.folds.run import Run, Tally
from holdfast.folds.session_fold import RunFold
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.model_names import is_hermes
from holdfast.server.problems import Problem
from holdfast.server.runs.client_messages import ClientInput, client_of, named_session, parse_messages
from holdfast.server.runs.client_tools import (
    ClientCall,
    Declared,
    client_calls,
    declared_tools,
    give_up_waiting,
    resumed_run,
    text_before,
)
from holdfast.server.runs.history import await_given_history
from holdfast.server.runs.requests import headers_of, raw_headers
from holdfast.server.streams.hermes import named_frame
from holdfast.server.streams.shared_frames import Added
from holdfast.server.streams.waiting import ResponseSpan, wait_for
from holdfast.server.transport.bodies import json_response, parsed
from holdfast.server.transport.once import OnceKey, earlier_response, once_key

_NOT_SHOWN = frozenset({"args", "result", "action", "choices", "error"})
_PROGRESS = {"tool.started": "running", "tool.completed": "completed"}
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class OpenAIChatRoutes:
    """The Chat Completions route."""

    def __init__(self, parts: RouteParts) -> None:
        shared = parts.routes(SharedRoutes)
        self._deps = parts.deps
        self._runs = parts.runs
        self._disconnects = parts.disconnects
        self._repeats = shared.repeats
        self._names = shared.names

    async def complete(self, request: Request, body: bytes) -> Any:
        """POST /v1/chat/completions for an agent."""
        deps = self._deps
        wanted = await parsed(body, deps.limits, ChatRequest)
        ignored = await ignored_fields(body, CHAT)
        await self._names.insist_on_agent(wanted.model, request)
        key = once_key(request, body, deps)
        if wanted.stream:
            with deps.streams.reserve(deps.limits.subscribers_max) as place:
                started = await self._rejoin_or_start(request, body, wanted, key)
                started.headers.update(ignored_header(ignored))
                return place.assign_to(self._streamed(request, body, wanted, started))
        started = await self._rejoin_or_start(request, body, wanted, key)
        started.headers.update(ignored_header(ignored))
        with self._repeats.rejoinable(request, body, row=started.row, after=started.after):
            ended = await wait_for(
                deps,
                started.row,
                request,
                after=started.after,
                stops_at_asks=not is_hermes(request),
                on_left=started.on_left,
            )
        return _completion(ended, started, model=wanted.model or deps.options.model)

    async def _rejoin_or_start(
        self, request: Request, body: bytes, wanted: ChatRequest, key: OnceKey | None
    ) -> "_Started":
        """The run that the request starts, or that it started before and lost."""
        if (abandoned := self._repeats.take_abandoned(request, body)) is not None:
            return self._read(request, abandoned.row, wanted, sent=None, after=abandoned.after)
        return await self._start(request, wanted, key)

    async def _start(self, request: Request, wanted: ChatRequest, key: OnceKey | None) -> "_Started":
        """The run that has the message, or that continued with the results of the client's tools."""
        deps, client = self._deps, client_of(request)
        session_id = named_session(request, otherwise=wanted.session_id or "")
        if (sent := await earlier_response(key, deps, status=202)) is not None:
            return self._read(request, await self._runs.row_of_sent(sent), wanted, sent=sent)
        await deps.put_images_inline(wanted.messages, param="messages")
        said = parse_messages(wanted.messages, deps.limits, param="messages")
        declared = declared_tools(wanted.tools, wanted.tool_choice)
        resumed = (
            await resumed_run(deps, said, declared, client=client, param="messages") if said.results else None
        )
        if resumed is not None:
            return self._read(request, resumed.row, wanted, sent=None, after=resumed.after)
        source = source_of(session_id)
        if not session_id and (chat := chat_of(request, wanted.model or "", deps)) is not None:
            session_id = await session_of(chat, said, deps)
            source = source_of(chat.chat_id)
        await give_up_waiting(deps, session_id, said=said, client=client, param="messages")
        message = await self._message(request, wanted, session_id, said=said, declared=declared)
        sent = await self._runs.send(session_id, replace(message, source=source), key=key)
        return self._read(request, await self._runs.row_of_sent(sent), wanted, sent=sent)

    def _read(
        self,
        request: Request,
        row: RunRow,
        wanted: ChatRequest,
        *,
        sent: Sent | Response | None,
        after: int = 0,
    ) -> "_Started":
        on_left = None if wanted.is_detached else self._disconnects.read_by(row, grace_s=grace_s(request))
        page = page_of(request, row.session_id, self._deps.options)
        return _Started(row, after, headers_of(row, sent), on_left, page)

    def _streamed(
        self, request: Request, body: bytes, wanted: ChatRequest, started: "_Started"
    ) -> OpenAIStream:
        deps = self._deps
        usage = wanted.stream_options is not None and bool(wanted.stream_options.include_usage)
        model, row = wanted.model or deps.options.model, started.row
        page = "" if is_hermes(request) else started.page
        view = ChatView(row, model, after=started.after, include_usage=usage, page=page)
        feed = OpenAIFeed(deps.store, deps.folds, row, view=view, after=started.after)
        left = self._repeats.when_left(request, body, row=row, feed=feed, then=started.on_left)
        headers = raw_headers(started.headers)
        return OpenAIStream(feed, deps.streams, limits=deps.limits, headers=headers, on_left=left)

    async def _message(
        self, request: Request, wanted: ChatRequest, session_id: str, *, said: ClientInput, declared: Declared
    ) -> IncomingMessage:
        # An existing session has the earlier messages already, so those in the request are ignored.
        known = await self._deps.store.session(session_id) if session_id else None
        history = said.before
        if known is not None and known.messages:
            history = await await_given_history(self._deps, session_id)
        return IncomingMessage(
            text=said.text,
            parts=said.parts,
            settings=settings_of(
                request,
                wanted,
                said.instructions,
                declared=declared,
                sampling=sampling_of(wanted),
                output=await chat_output(wanted.response_format),
            ),
            history=history,
            attached=said.attached,
        )


class _Started(Struct, frozen=True):
    """A run, the event after which the response begins, and what to call when the client leaves."""

    row: RunRow
    after: int
    headers: dict[str, str]
    on_left: Callable[[], None] | None
    page: str  # where a person answers what the run asks


def _completion(ended: ResponseSpan, started: _Started, *, model: str) -> Response:
    """The answer to a client that does not stream.

    It lists calls of the client's own tools; the agent's tools were run here, so their calls are not listed.
    """
    run, row = ended.run.state, started.row
    if response_failed(ended):
        return failed_response(run, started.headers)
    calls = client_calls(ended)
    text = text_before(ended, started.after) if calls or ended.person_ask else ended.run.output
    if ended.person_ask is not None:
        text = BREAK.join(filter(None, (text, waiting_text(ended.person_ask, started.page))))
    message = ChatMessage(
        role="assistant",
        content=None if calls and not text else text,
        refusal=None,
        annotations=(),
        tool_calls=tuple(map(_tool_call, calls)) if calls else UNSET,
    )
    finish = "tool_calls" if calls else _finish(run)
    completion = ChatCompletion(
        id=_completion_id(row, started.after),
        object="chat.completion",
        created=row.created_ms // 1000,
        model=run.model or model,
        choices=(ChatChoice(index=0, message=message, logprobs=None, finish_reason=finish),),
        usage=_usage(ended.used),
        holdfast=waiting_shown(ended, started.page),
    )
    return json_response(completion, headers=started.headers)


def _completion_id(row: RunRow, after: int) -> str:
    """The same for each reader, and another one for what follows after the client's tools."""
    return f"chatcmpl-{row.run_id.removeprefix('run_')}" + (f"-{after}" if after else "")


def _tool_call(call: ClientCall) -> ToolCallShown:
    return ToolCallShown(
        id=call.call_id, type="function", function=ChatFunction(name=call.name, arguments=call.arguments)
    )


class ChatView(RunStreamView):
    """A run as chunks of a chat completion."""

    def __init__(self, row: RunRow, model: str, *, after: int, include_usage: bool, page: str) -> None:
        self._page = page  # the link for approvals and questions in the text; if empty, they're left out
        self._head: dict[str, Any] = {
            "id": _completion_id(row, after),
            "object": "chat.completion.chunk",
            "created": row.created_ms // 1000,
            "model": model,
        }
        self._run_id = row.run_id
        self._include_usage = include_usage
        self._break = ""  # the break to send before the next text
        self._spoke = False

    def begin(self) -> list[bytes]:
        """The role comes first."""
        return [self._chunk({"role": "assistant", "content": "", "refusal": None})]

    def add(self, event: e.Event, added: Added, run: RunFold) -> list[bytes]:
        """Text as content; tools as progress beside it."""
        self._head["model"] = run.state.model or self._head["model"]
        if added.text:
            if run.state.settings.output is not None:
                return []  # invalid JSON can't be retracted, so it's sent as a whole at the end
            between, self._break, self._spoke = self._break, "", True
            return [self._chunk({"content": between + added.text})]
        if added.reasoning:
            return [self._chunk({"reasoning_content": added.reasoning})]
        match event:
            case e.ToolStarted() | e.ToolEnded() | e.ApprovalAsked() | e.QuestionAsked():
                # Without a break, the text before a tool call and the text after it would run together.
                self._break = BREAK if self._spoke else ""
                progress = b"event: hermes.tool.progress\n" + self._chunk(
                    {}, beside=self._progress(event, run)
                )
                return [*self._asks(event, run), progress]
            case e.MessageDispatched() if event.message_id != run.state.message_id:
                self._break = BREAK if self._spoke else ""
                return []
            case _:
                return []

    def end(self, ended: ResponseSpan) -> list[bytes]:
        """How it finished, what it used, and that it is done; a failure is an error and not an answer."""
        run = ended.run.state
        if ended.client_ask is None and run_failed(run):
            return [b"data: %b\n\n" % encode(problem_of_run(run).body), b"data: [DONE]\n\n"]
        self._head["model"] = run.model or self._head["model"]
        if calls := client_calls(ended):
            listed = [{"index": n, **to_builtins(_tool_call(call))} for n, call in enumerate(calls)]
            last, finish = [self._chunk({"tool_calls": listed})], "tool_calls"
        else:
            is_whole = run.settings.output is not None
            last, finish = [self._chunk({"content": ended.run.output})] if is_whole else [], _finish(run)
        usage = {"usage": _usage(ended.used)}
        if not self._include_usage:
            return [*last, self._chunk({}, finish=finish, beside=usage), b"data: [DONE]\n\n"]
        used = b"data: %b\n\n" % encode(self._head | {"choices": []} | usage)
        return [*last, self._chunk({}, finish=finish), used, b"data: [DONE]\n\n"]

    def _asks(self, event: e.Event, run: RunFold) -> list[bytes]:
        """That the run waits for a person, in the text."""
        if (
            not self._page
            or not isinstance(event, e.PersonAsked)
            or event.ask_id not in run.state.person_asks
        ):
            return []
        between, self._break, self._spoke = self._break, BREAK, True
        return [self._chunk({"content": between + waiting_text(event, self._page)})]

    def _progress(self, event: e.Event, run: RunFold) -> dict[str, Any]:
        """Return a tool's progress in hermes format, with an empty chunk.

        The official package treats any event as a chunk, and its users read the first choice of each.
        """
        frame = named_frame(event, run) or {}
        shown = {key: value for key, value in frame.items() if key not in _NOT_SHOWN}
        status = _PROGRESS.get(frame["event"], "waiting")
        label = frame.get("preview") or frame.get("command") or frame.get("question") or frame.get("tool", "")
        # Under the name of "error" the package would take it for the end of the stream.
        failed = {"failed": True} if frame.get("error") else {}
        if isinstance(event, e.ApprovalAsked):
            # hermes-webui answers with the run's id, and looks here for what it can't see among the choices.
            shown |= {"run_id": self._run_id, "allow_permanent": "always" in event.choices}
        return {**shown, **failed, "toolCallId": frame["tool_call_id"], "label": label, "status": status}

    @override
    def cut_off(self, why: Problem) -> list[bytes]:
        return [b"data: %b\n\n" % encode(why.body), b"data: [DONE]\n\n"]

    def _chunk(
        self, delta: dict[str, Any], *, finish: str | None = None, beside: Mapping[str, Any] = _NOTHING
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        usage = {"usage": None} if self._include_usage else {}
        return b"data: %b\n\n" % encode({**beside, **self._head, "choices": [choice], **usage})


def _finish(run: Run) -> Literal["stop", "length", "content_filter"]:
    match run.outcome:
        case "refused":
            return "content_filter"
        case "truncated":
            return "length"
        case _:
            return "stop"


def _usage(usage: Tally) -> ChatUsage:
    return ChatUsage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        prompt_tokens_details=PromptTokensDetails(
            cached_tokens=usage.cached_tokens, cache_write_tokens=usage.cache_write_tokens
        ),
        completion_tokens_details=OutputTokensDetails(reasoning_tokens=usage.reasoning_tokens),
    )
