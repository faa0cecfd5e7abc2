"""Chat Completions as a view of a run."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import override

from holdfast.api.openai import (
    ChatChoice,
    ChatCompletion,
    ChatMessage,
    ChatRequest,
    ChatUsage,
    OutputTokensDetails,
    PromptTokensDetails,
)
from holdfast.folds.rows import RunRow
from holdfast.folds.run import Run
from holdfast.folds.session_fold import RunReadModel
from holdfast.runner.inbox import Message
from holdfast.server.deps import RouteDeps
from holdfast.server.openai.messages import named_session, said_in
from holdfast.server.openai.models import insist_on_known_model
from holdfast.server.openai.output_format import chat_output
from holdfast.server.openai.shapes import (
    BREAK,
    OpenAIFeed,
    OpenAIStream,
    RunStreamView,
    encode,
    failed_answer,
    headers_of,
    is_failure,
    problem_of_run,
    raw,
    settings_of,
    source_of,
)
from holdfast.server.problems import Problem
from holdfast.server.runs.history import await_given_history
from holdfast.server.runs.runs import RunRoutes
from holdfast.server.streams.hermes import Frame
from holdfast.server.streams.waiting import wait_for
from holdfast.server.transport.bodies import json_answer, parsed, read_body
from holdfast.server.transport.once import OnceKey, earlier_answer, once_key
from holdfast.server.upkeep.disconnects import Disconnects

_NOT_SHOWN = frozenset({"args", "result", "action", "choices", "error"})
_PROGRESS = {"tool.started": "running", "tool.completed": "completed"}
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class OpenAIChatRoutes:
    """What the Chat Completions route does."""

    def __init__(self, deps: RouteDeps, runs: RunRoutes, disconnects: Disconnects) -> None:
        self._deps = deps
        self._runs = runs
        self._disconnects = disconnects

    async def complete(self, request: Request) -> Any:
        """POST /v1/chat/completions."""
        deps = self._deps
        body = await read_body(request, deps.limits)
        wanted = await parsed(body, deps.limits, ChatRequest)
        insist_on_known_model(wanted.model, request.headers, deps)
        key = once_key(request, body, deps)
        if wanted.stream:
            with deps.streams.promise(deps.limits.subscribers_max) as place:
                return place.given_to(await self._streamed(request, wanted, key))
        row, headers, on_left = await self._begun(request, wanted, key)
        ended = await wait_for(deps, row, request, on_left=on_left)
        return _whole(ended, row=row, model=wanted.model or deps.options.model, headers=headers)

    async def _begun(
        self, request: Request, wanted: ChatRequest, key: OnceKey | None
    ) -> tuple[RunRow, dict[str, str], Callable[[], None] | None]:
        """The run that has the message, the headers that name it, and what to call when its client leaves."""
        session_id = named_session(request, otherwise=wanted.session_id or "")
        sent = await earlier_answer(key, self._deps, status=202)
        if sent is None:
            sent = await self._runs.send(session_id, await self._message(wanted, session_id), key=key)
        row = await self._runs.row_of_sent(sent)
        on_left = None if wanted.is_detached else self._disconnects.read_by(row)
        return row, headers_of(row, sent), on_left

    async def _streamed(self, request: Request, wanted: ChatRequest, key: OnceKey | None) -> OpenAIStream:
        deps = self._deps
        row, headers, on_left = await self._begun(request, wanted, key)
        usage = wanted.stream_options is not None and bool(wanted.stream_options.include_usage)
        model, created = wanted.model or deps.options.model, row.created_ms // 1000
        view = ChatView(row, model, created=created, include_usage=usage)
        feed = OpenAIFeed(deps.store, deps.folds, row, view=view)
        return OpenAIStream(feed, deps.streams, limits=deps.limits, headers=raw(headers), on_left=on_left)

    async def _message(self, wanted: ChatRequest, session_id: str) -> Message:
        said = said_in(wanted.messages, self._deps.limits, param="messages")
        # A session that goes on has the earlier messages; a client that sends them again adds nothing.
        known = await self._deps.store.session(session_id) if session_id else None
        history = said.before
        if known is not None and known.messages:
            history = await await_given_history(self._deps, session_id)
        return Message(
            text=said.text,
            parts=said.parts,
            settings=settings_of(wanted, said.instructions, output=await chat_output(wanted.response_format)),
            history=history,
            source=source_of(session_id),
            attached=said.attached,
        )


def _whole(ended: RunReadModel, *, row: RunRow, model: str, headers: Mapping[str, str]) -> Response:
    """The answer to a client that does not stream.

    It lists no tool calls: whoever gets some runs them, and these were run here.
    """
    run = ended.state
    if is_failure(run):
        return failed_answer(run, headers)
    message = ChatMessage(role="assistant", content=ended.output, refusal=None)
    completion = ChatCompletion(
        id=f"chatcmpl-{row.run_id.removeprefix('run_')}",
        object="chat.completion",
        created=row.created_ms // 1000,
        model=model,
        choices=(ChatChoice(index=0, message=message, logprobs=None, finish_reason=_finish(run)),),
        usage=_usage(run),
    )
    return json_answer(completion, headers=headers)


class ChatView(RunStreamView):
    """A run as chunks of a chat completion."""

    def __init__(self, row: RunRow, model: str, *, created: int, include_usage: bool) -> None:
        self._head: dict[str, Any] = {
            "id": f"chatcmpl-{row.run_id.removeprefix('run_')}",
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        self._include_usage = include_usage
        self._break = ""  # what is still to be said of the break between two turns
        self._spoke = False

    def begin(self) -> list[bytes]:
        """The role comes first."""
        return [self._chunk({"role": "assistant", "content": ""})]

    def add(self, frame: Frame, run: RunReadModel) -> list[bytes]:
        """Text as content; tools as progress beside it."""
        match frame["event"]:
            case "message.delta" if run.state.settings.output is not None:
                return []  # JSON that turns out wrong can't be taken back, so it comes whole at the end
            case "message.delta":
                between, self._break, self._spoke = self._break, "", True
                return [self._chunk({"content": between + frame["delta"]})]
            case "reasoning.delta":
                return [self._chunk({"reasoning_content": frame["delta"]})]
            case "tool.started" | "tool.completed" | "approval.request" | "question.request":
                # What is said before a tool and after it would else run together in one message.
                self._break = BREAK if self._spoke else ""
                return [b"event: hermes.tool.progress\n" + self._chunk({}, beside=_progress(frame))]
            case "run.steered":
                self._break = BREAK if self._spoke else ""
                return []
            case _:
                return []

    def end(self, ended: RunReadModel) -> list[bytes]:
        """How it finished, what it used, and that it is done; a failure is an error and not an answer."""
        run = ended.state
        if is_failure(run):
            return [b"data: %b\n\n" % encode(problem_of_run(run).body), b"data: [DONE]\n\n"]
        whole = [self._chunk({"content": ended.output})] if run.settings.output is not None else []
        usage, finish = {"usage": _usage(run)}, _finish(run)
        if not self._include_usage:
            return [*whole, self._chunk({}, finish=finish, beside=usage), b"data: [DONE]\n\n"]
        used = b"data: %b\n\n" % encode(self._head | {"choices": []} | usage)
        return [*whole, self._chunk({}, finish=finish), used, b"data: [DONE]\n\n"]

    @override
    def cut_off(self, why: Problem) -> list[bytes]:
        return [b"data: %b\n\n" % encode(why.body), b"data: [DONE]\n\n"]

    def _chunk(
        self, delta: dict[str, Any], *, finish: str | None = None, beside: Mapping[str, Any] = _NOTHING
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        usage = {"usage": None} if self._include_usage else {}
        return b"data: %b\n\n" % encode({**beside, **self._head, "choices": [choice], **usage})


def _progress(frame: Frame) -> dict[str, Any]:
    """What a tool does, in hermes' words, beside a chunk in which nothing is said.

    The official package takes any event for a chunk, and its users look into the first choice of each.
    """
    shown = {key: value for key, value in frame.items() if key not in _NOT_SHOWN}
    status = _PROGRESS.get(frame["event"], "waiting")
    label = frame.get("preview") or frame.get("command") or frame.get("question") or frame.get("tool", "")
    # Under the name of "error" the package would take it for the end of the stream.
    failed = {"failed": True} if frame.get("error") else {}
    return {**shown, **failed, "toolCallId": frame["tool_call_id"], "label": label, "status": status}


def _finish(run: Run) -> Literal["stop", "length", "content_filter"]:
    match run.outcome:
        case "refused":
            return "content_filter"
        case "truncated":
            return "length"
        case _:
            return "stop"


def _usage(run: Run) -> ChatUsage:
    usage = run.usage
    return ChatUsage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        prompt_tokens_details=PromptTokensDetails(
            cached_tokens=usage.cached_tokens, cache_write_tokens=usage.cache_write_tokens
        ),
        completion_tokens_details=OutputTokensDetails(reasoning_tokens=usage.reasoning_tokens),
    )
