"""Shared by the OpenAI-compatible routes: settings, errors, streams, headers."""

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import quote

import msgspec
from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send
from typing_extensions import override

from holdfast import events as e
from holdfast.features.openai.bodies import OpenAIRequest, PersonNeeded
from holdfast.folds.asks import ask_event
from holdfast.folds.rows import RunRow
from holdfast.folds.run import Run
from holdfast.folds.session_fold import RunFold
from holdfast.interfaces.journal import Journal, Record
from holdfast.server.model_names import agent_model, is_hermes
from holdfast.server.options import ServerOptions
from holdfast.server.problems import Problem, bad_request
from holdfast.server.runs.client_messages import client_of
from holdfast.server.runs.client_tools import Declared
from holdfast.server.runs.requests import metadata_of, output_tokens_max
from holdfast.server.runs.run_report import code_of, error_of
from holdfast.server.streams.folds import Folds
from holdfast.server.streams.shared_frames import Added, SpanFeed
from holdfast.server.streams.stream import EventStream
from holdfast.server.streams.waiting import NO_RETRY, ResponseSpan
from holdfast.server.transport.bodies import json_response
from holdfast.values import NO_TOOLS, OPENAI, OutputFormat, RunSettings

encode = msgspec.json.Encoder().encode

TASK_HEADER = "x-holdfast-task"
PROMPT_HEADER = "x-holdfast-prompt"
BREAK = "\n\n"  # between text before and after a person's message or a tool call

# The HTTP status of a provider's failure: one that OpenAI clients know how to handle.
_STATUSES = {
    "rate_limited": 429,
    "quota_exhausted": 429,
    "overloaded": 503,
    "payload_too_large": 413,
    "overflow_input": 400,
    "bad_request": 400,
    "model_missing": 404,
    "cancelled": 409,
}


def settings_of(
    request: Request,
    body: OpenAIRequest,
    instructions: str,
    *,
    declared: Declared,
    sampling: dict[str, object],
    output: OutputFormat | None = None,
) -> RunSettings:
    """The settings that the caller asked for; raises a Problem."""
    is_alone = is_task(request) or without_prompt(request)
    return RunSettings(
        model=agent_model(body.model or ""),
        instructions=instructions,
        temperature=body.temperature,
        max_output_tokens=output_tokens_max(body),
        reasoning_effort=body.effort,
        on_disconnect="detach" if body.is_detached else body.on_disconnect or "",
        metadata=metadata_of(body.metadata or {}),
        output=output,
        sampling=sampling,
        no_questions=not is_hermes(request),
        client_tools=declared.tools,
        tool_choice=declared.choice,
        tools=NO_TOOLS if is_task(request) else (),
        client=client_of(request) if declared.tools else "",
        prompt="none" if is_alone else "",
    )


def without_prompt(request: Request) -> bool:
    """Whether a header drops the server's prompt and environment; raises a Problem."""
    prompt = request.headers.get(PROMPT_HEADER, "default")
    if prompt not in {"default", "none"}:
        text = "The header X-Holdfast-Prompt must be 'none' or 'default'"
        raise bad_request(text, param="X-Holdfast-Prompt")
    return prompt == "none"


def problem_of_run(run: Run) -> Problem:
    """Why a run has no complete answer; a header tells OpenAI's package not to retry."""
    code = "cancelled" if run.outcome == "cancelled" else code_of(run)
    return Problem(_STATUSES.get(code, 502), error_of(run), code=code, headers=NO_RETRY)


def failed_response(run: Run, headers: Mapping[str, str]) -> Response:
    """The error response for a client that waited for a complete answer."""
    problem = problem_of_run(run)
    return json_response(problem.body, problem.status, headers={**headers, **problem.headers})


def run_failed(run: Run) -> bool:
    """Whether the run has no answer to show; a truncated answer is shown, marked as such."""
    return run.outcome not in {"completed", "refused", "truncated"}


class RunStreamView(Protocol):
    """A run as one of the OpenAI protocols streams it."""

    def begin(self) -> list[bytes]:
        """Return the frames before the first event."""
        ...

    def add(self, event: e.Event, added: Added, run: RunFold) -> list[bytes]:
        """Return the frames of an event before the last."""
        ...

    def end(self, ended: ResponseSpan) -> list[bytes]:
        """Return the frames after the last event."""
        ...

    def cut_off(self, why: Problem) -> list[bytes]:
        """The frames for a reader whose stream ends before the response does."""
        ...


class OpenAIFeed(SpanFeed):
    """A run in one of the OpenAI protocols; without ids, since these know no resumption."""

    def __init__(
        self, journal: Journal, folds: Folds, row: RunRow, *, view: RunStreamView, after: int = 0
    ) -> None:
        super().__init__(journal, folds, row, after=after, pending=view.begin())
        self._view = view

    def cut_off(self) -> list[bytes]:
        """The frames that tell a reader that the stream ends early; none if the response is complete."""
        if self.is_over:
            return []
        where = f"GET /v1/runs/{self._row.run_id}"
        text = f"The stream ends here, but the run continues. {where} shows its status"
        return self._view.cut_off(Problem(503, text, code="stream_ended"))

    @override
    def _encoded(self, record: Record, added: Added, run: RunFold) -> list[bytes]:
        event = record.event
        if isinstance(event, e.RunEnded | e.ClientToolsAsked):
            self.is_over = True
            asked = event if isinstance(event, e.ClientToolsAsked) else None
            return self._view.end(ResponseSpan(run, asked, used=self._used))
        return self._view.add(ask_event(event), added, run)


class OpenAIStream(EventStream):
    """An event stream that never just stops: to the package such an end looks like the end of the answer."""

    def __init__(self, feed: OpenAIFeed, *args: Any, **rest: Any) -> None:
        super().__init__(feed, *args, **rest)
        self._told = feed

    async def _send_all(self, send: Send) -> None:
        await super()._send_all(send)
        if frames := self._told.cut_off():
            await send({"type": "http.response.body", "body": b"".join(frames), "more_body": True})


def response_failed(span: ResponseSpan) -> bool:
    """Whether a response that ends here has no answer; one that ends with an ask has one."""
    return span.client_ask is None and span.person_ask is None and run_failed(span.run.state)


def waiting_text(asked: e.PersonAsked, page: str) -> str:
    """The text for a client that can't answer an ask, and where a person can."""
    if isinstance(asked, e.QuestionAsked):
        return f"[Waiting for a person to answer: {asked.text}]\n\nAnswer here: <{page}>"
    what = asked.headline or asked.action.summary
    return f"[Waiting for a person to approve this: {what}]\n\nApprove or deny it here: <{page}>"


def waiting_shown(span: ResponseSpan, page: str) -> PersonNeeded | UnsetType:
    """The same for programs."""
    asked = span.person_ask
    if asked is None:
        return UNSET
    kind = "question" if isinstance(asked, e.QuestionAsked) else "approval"
    text = waiting_text(asked, page)
    return PersonNeeded(waiting_for=kind, id=asked.ask_id, run_id=asked.run_id, text=text, url=page)


def is_task(request: Request) -> bool:
    """Whether the request is for a task outside the chat, such as a title; a header names the task."""
    return bool(request.headers.get(TASK_HEADER))


def page_of(request: Request, session_id: str, options: ServerOptions) -> str:
    """The address of the session on the page."""
    page = options.public_url or str(request.base_url).rstrip("/") + options.mount_path
    return f"{page}/s/{quote(session_id, safe='')}"


def source_of(session_id: str) -> str:
    """Where a session comes from; only one that its client did not name is hidden and kept for a while."""
    return "api" if session_id else OPENAI
