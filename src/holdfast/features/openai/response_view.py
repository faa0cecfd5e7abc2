"""A run as a response of the Responses protocol: the object, and the events of its stream."""

import sys
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import override

from holdfast import events as e
from holdfast.features.openai.bodies import (
    OutputTokensDetails,
    PromptTokensDetails,
    ResponseShown,
    ResponseUsage,
)
from holdfast.features.openai.items import (
    CallItems,
    HermesCallItems,
    ItemStatus,
    McpCallItems,
    ServerToolCall,
    call_of,
    function_call,
    function_call_events,
    message_item,
)
from holdfast.features.openai.parameters import shown_format
from holdfast.features.openai.shapes import (
    BREAK,
    RunStreamView,
    encode,
    problem_of_run,
    run_failed,
    waiting_shown,
    waiting_text,
)
from holdfast.folds.entries import Entry, Text, ToolCard
from holdfast.folds.rows import RunRow
from holdfast.folds.run import Run, Tally
from holdfast.folds.session_fold import RunFold
from holdfast.server.problems import Problem
from holdfast.server.provider_formats import response_fields, text_part
from holdfast.server.runs.client_tools import ClientCall, client_calls, text_before
from holdfast.server.runs.history import response_id
from holdfast.server.runs.run_report import tool_args, tool_name
from holdfast.server.streams.shared_frames import Added
from holdfast.server.streams.waiting import ResponseSpan
from holdfast.values import ClientTool, RunSettings


class ResponseContext(Struct, frozen=True):
    """The parameters of a response, and the model name that clients see."""

    model: str
    settings: RunSettings
    previous: str | None = None
    conversation: str | None = None
    is_stored: bool = True
    is_background: bool = False
    by_hermes: bool = False  # one of hermes' own clients
    page: str = ""  # where a person answers what the run asks
    after: int = 0  # the event of the run after which the response begins
    calls_before: int = 0  # the tool calls that the run made up to there


def response_of(row: RunRow, context: ResponseContext, span: ResponseSpan | None = None) -> ResponseShown:
    """The response object; without a span of the run it is the one that a stream begins with."""
    response = ResponseShown(
        id=response_id(row.run_id, after=context.after),
        object="response",
        created_at=row.created_ms // 1000,
        status="in_progress",
        conversation={"id": context.conversation} if context.conversation else None,
        model=context.model,
        output=(),
        **response_fields(_asked(context)),
    )
    run = span.run.state if span else None
    if span is None or run is None or not (run.outcome or span.client_ask or span.person_ask):
        is_queued = run is not None and run.status == "queued"
        return replace(response, status="queued") if is_queued else response
    response = replace(response, output=tuple(_output(span, context)), usage=usage_shown(span.used))
    response = replace(response, model=run.model or response.model)
    if span.person_ask is not None:
        details = {"reason": "waiting_for_approval"}
        shown = waiting_shown(span, context.page)
        return replace(response, status="incomplete", incomplete_details=details, holdfast=shown)
    if span.client_ask is not None:
        return replace(response, status="completed", completed_at=span.client_ask.at_ms // 1000)
    completed_at = run.updated_ms // 1000 if run.outcome == "completed" else None
    return replace(response, completed_at=completed_at, **_ending(run))


def _asked(context: ResponseContext) -> dict[str, Any]:
    """The fields of the request, as far as the run knows them."""
    settings = context.settings
    choice = settings.tool_choice
    is_named = choice not in {"", "none", "required"}
    return {
        **settings.sampling,
        "background": context.is_background,
        "instructions": settings.instructions or None,
        "max_output_tokens": settings.max_output_tokens or None,
        "metadata": settings.metadata,
        "previous_response_id": context.previous,
        "reasoning": {"effort": settings.reasoning_effort or None},
        "store": context.is_stored,
        "temperature": settings.temperature,
        "text": {"format": shown_format(settings.output)},
        "tool_choice": {"type": "function", "name": choice} if is_named else choice,
        "tools": [_tool(tool) for tool in settings.client_tools],
    }


def _tool(tool: ClientTool) -> dict[str, Any]:
    fields = {"name": tool.name, "description": tool.description or None, "parameters": tool.schema}
    return {"type": "function", **fields, "strict": False}


def _ending(run: Run) -> dict[str, Any]:
    """The fields of a response that say how it ended."""
    if run.outcome == "truncated":
        return {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    if run.outcome == "refused":
        return {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    if run_failed(run):
        problem, status = problem_of_run(run), "cancelled" if run.outcome == "cancelled" else "failed"
        return {"status": status, "error": {"code": problem.code, "message": problem.message}}
    return {"status": "completed"}


def _output(span: ResponseSpan, context: ResponseContext) -> list[dict[str, Any]]:
    """Tool calls with their results, in order; then the answer, or calls for the client.

    Calls of the agent's own tools have their output with them: there is nothing left to run.
    """
    fold = span.run
    run = fold.state
    calls = _calls_of(context, run.run_id)
    items: list[dict[str, Any]] = []
    made = before = 0
    for entry in _entries(span, context.after):
        if isinstance(entry, ToolCard):
            made += 1
            items += calls.listed(call_of(entry))
        elif isinstance(entry, Text) and entry.text:
            before = made
    text, status = fold.output, _message_status(run)
    if span.client_ask is not None:
        text, status = text_before(span, context.after), "completed"
    elif span.person_ask is not None:
        said = text_before(span, context.after)
        text, status = (
            BREAK.join(filter(None, (said, waiting_text(span.person_ask, context.page)))),
            "incomplete",
        )
    if text:
        before += context.calls_before
        items.append(message_item(run.run_id, text, calls_before=before, status=status))
    return items + [function_call(run.run_id, call) for call in client_calls(span)]


def _entries(span: ResponseSpan, after: int) -> list[Entry]:
    """The entries of the span, without the client's own calls."""
    view = span.run.view
    ends = [seq for seq, asked in view.client_asks.items() if asked is span.client_ask] or [sys.maxsize]
    own = {id_ for asked in view.client_asks.values() for id_ in asked.tool_call_ids}
    return [
        entry
        for entry in view.entries
        if after < entry.seq < ends[0] and not (isinstance(entry, ToolCard) and entry.tool_call_id in own)
    ]


def _calls_of(context: ResponseContext, run_id: str) -> CallItems:
    return HermesCallItems(run_id) if context.by_hermes else McpCallItems(run_id)


def _message_status(run: Run) -> ItemStatus:
    """The status of the run's last message: completed only if the run completed."""
    return "completed" if run.outcome == "completed" else "incomplete"


def usage_shown(usage: Tally) -> ResponseUsage:
    """Return the usage of a response, in its format."""
    return ResponseUsage(
        input_tokens=usage.input_tokens,
        input_tokens_details=PromptTokensDetails(
            cached_tokens=usage.cached_tokens, cache_write_tokens=usage.cache_write_tokens
        ),
        output_tokens=usage.output_tokens,
        output_tokens_details=OutputTokensDetails(reasoning_tokens=usage.reasoning_tokens),
        total_tokens=usage.input_tokens + usage.output_tokens,
    )


class ResponseView(RunStreamView):
    """A run as events of a response, numbered from 0."""

    def __init__(self, row: RunRow, context: ResponseContext, *, after: int = -1) -> None:
        self._row = row
        self._context = context
        self._items = _calls_of(context, row.run_id)
        self._after = after  # the last event that the reader has
        self._number = 0
        self._index = -1
        self._item = ""
        self._steered = False  # a person said something since the last text
        self._text: list[str] = []
        self._calls: dict[str, int] = {}  # the place of each among the items

    def response(self, span: ResponseSpan | None = None) -> ResponseShown:
        """The response object as it stands."""
        return response_of(self._row, self._context, span)

    def begin(self) -> list[bytes]:
        """The response is created and in progress."""
        return [
            self._event(f"response.{name}", response=self.response()) for name in ("created", "in_progress")
        ]

    def add(self, event: e.Event, added: Added, run: RunFold) -> list[bytes]:
        """Text goes into a message; tool calls and their results are items."""
        if added.text:
            if self._context.settings.output is not None:
                return []  # invalid JSON can't be retracted, so it's sent as a whole at the end
            delta = (BREAK if self._steered and self._text else "") + added.text
            self._steered = False
            return self._say(delta)
        match event:
            case e.MessageDispatched() if event.message_id != run.state.message_id:
                self._steered = True
                return []
            case e.ApprovalAsked() | e.QuestionAsked() if not self._context.by_hermes:
                between = BREAK if self._text else ""
                return self._say(between + waiting_text(event, self._context.page))
            case e.ToolStarted():
                return [*self._close_message(), *self._call(event.tool_call_id, run)]
            case e.ToolEnded():
                # A call that was refused never started, and yet it was asked for.
                is_known = event.tool_call_id in self._calls
                called = [] if is_known else [*self._close_message(), *self._call(event.tool_call_id, run)]
                return [*called, *self._close_message(), *self._result_events(event, run)]
            case _:
                return []

    def end(self, ended: ResponseSpan) -> list[bytes]:
        """The message is closed, and the response says truthfully how it ended."""
        response, run = self.response(ended), ended.run
        calls = client_calls(ended)
        is_whole = self._context.settings.output is not None and not calls and not run_failed(run.state)
        said = self._say(run.output) if is_whole and run.output else []
        name = response.status if response.status in {"completed", "incomplete"} else "failed"
        closed = self._close_message("completed" if calls else _message_status(run.state))
        called = [frame for call in calls for frame in self._call_of_client(call)]
        # Deltas can be merged after the run has ended, along with their numbers; the end is always sent.
        self._after = -1
        return [*said, *closed, *called, self._event(f"response.{name}", response=response)]

    def _call_of_client(self, call: ClientCall) -> list[bytes]:
        self._index += 1
        item = function_call(self._row.run_id, call)
        told = function_call_events(item, self._index)
        return [self._event(kind, **fields) for kind, fields in told]

    @override
    def cut_off(self, why: Problem) -> list[bytes]:
        self._after = -1  # whatever the reader has, this is news
        return [self._event("error", code=why.code, message=why.message, param=None)]

    def _say(self, delta: str) -> list[bytes]:
        opened = [] if self._item else self._open_message()
        self._text.append(delta)
        return [*opened, self._text_event("delta", delta=delta, logprobs=[])]

    def _open_message(self) -> list[bytes]:
        self._index += 1
        item = self._message("", "in_progress")
        self._item = item["id"]
        return [
            self._event("response.output_item.added", output_index=self._index, item=item),
            self._in_part("response.content_part.added", part=text_part("")),
        ]

    def _close_message(self, status: ItemStatus = "completed") -> list[bytes]:
        if not self._item:
            return []
        text = "".join(self._text)
        closed = [
            self._text_event("done", text=text, logprobs=[]),
            self._in_part("response.content_part.done", part=text_part(text)),
            self._event(
                "response.output_item.done",
                output_index=self._index,
                item=self._message(text, status),
            ),
        ]
        self._item, self._text = "", []
        return closed

    def _message(self, text: str, status: ItemStatus) -> dict[str, Any]:
        return message_item(
            self._row.run_id, text, calls_before=self._context.calls_before + len(self._calls), status=status
        )

    def _call(self, call_id: str, run: RunFold) -> list[bytes]:
        self._index += 1
        self._calls[call_id] = self._index
        call = ServerToolCall(call_id, tool_name(run, call_id), tool_args(run, call_id))
        return [self._event(kind, **fields) for kind, fields in self._items.started(call, self._index)]

    def _result_events(self, event: e.ToolEnded, run: RunFold) -> list[bytes]:
        call_id = event.tool_call_id
        name, args = tool_name(run, call_id), tool_args(run, call_id)
        call = ServerToolCall(call_id, name, args, event.result, event.ok)
        told, next_index = self._items.ended(call, self._calls[call_id], next_index=self._index + 1)
        self._index = next_index - 1
        return [self._event(kind, **fields) for kind, fields in told]

    def _text_event(self, name: str, **fields: Any) -> bytes:
        return self._in_part(f"response.output_text.{name}", **fields)

    def _in_part(self, kind: str, /, **fields: Any) -> bytes:
        return self._event(kind, item_id=self._item, output_index=self._index, content_index=0, **fields)

    def _event(self, kind: str, /, **fields: Any) -> bytes:
        number = self._number
        self._number += 1
        if number <= self._after:
            return b""
        body = encode({"type": kind, "sequence_number": number, **fields})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), body)
