"""A run as AG-UI events.

Text, reasoning and tool calls are sent as chunks, so that each log event is one frame and its seq a safe
cursor. A frame without an id is repeated for a reader that resumes before it.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
from typing_extensions import override

from holdfast import events as e
from holdfast.catalog import frames_for
from holdfast.features.ag_ui.bodies import PROTOCOL_VERSION, RunAgentInput
from holdfast.folds.asks import ask_event
from holdfast.folds.rows import RunRow
from holdfast.folds.run import Run, Tally
from holdfast.folds.session_fold import RunFold
from holdfast.interfaces.journal import Record
from holdfast.server.deps import RouteDeps
from holdfast.server.runs.client_tools import client_calls
from holdfast.server.runs.run_report import ask_of, code_of, error_of
from holdfast.server.streams.shared_frames import Added, SpanFeed
from holdfast.server.streams.waiting import ResponseSpan

AgUiEvent: TypeAlias = dict[str, Any]
_encode = msgspec.json.Encoder().encode
_FEATURE_FRAMES = frames_for("ag_ui")


class AgUiView:
    """Converts a run to frames, starting after an event."""

    def __init__(self, row: RunRow, wanted: RunAgentInput, *, after: int) -> None:
        self._row = row
        self._ids = {"threadId": wanted.thread_id, "runId": wanted.run_id}
        self._parent = {"parentRunId": wanted.parent_run_id} if wanted.parent_run_id else {}
        self._prefix = f"{row.run_id}-{after}" if after else row.run_id
        self._message = 0
        self._answer_is_over = False

    def begin(self) -> AgUiEvent:
        """Return the frame before the first event."""
        about = {"holdfast": {"run_id": self._row.run_id, "session_id": self._row.session_id}}
        version = {"protocolVersion": PROTOCOL_VERSION, "metadata": about}
        return {"type": "RUN_STARTED", **self._ids, **self._parent, **version}

    def add(self, event: e.Event, added: Added, run: RunFold) -> AgUiEvent | None:
        """Return the frame of an event before the last."""
        if isinstance(event, e.ToolAsked):
            if run.state.tools[event.tool_call_id].owner == "client":
                return None  # told with the id that the client answers it under
            return self._call(event.tool_call_id, event.name, _arguments(event))
        if isinstance(event, e.ToolEnded):
            return self._result(event)
        if (of_feature := _FEATURE_FRAMES.get(type(event))) is not None:
            return of_feature(event)
        if added.text:
            text = {"role": "assistant", "delta": added.text}
            return {"type": "TEXT_MESSAGE_CHUNK", "messageId": self._current(), **text}
        if added.reasoning:
            message_id = f"{self._current()}-reasoning"
            return {"type": "REASONING_MESSAGE_CHUNK", "messageId": message_id, "delta": added.reasoning}
        if isinstance(event, e.MessageDispatched) and event.message_id != run.state.message_id:
            self._answer_is_over = True
            text = {"role": "user", "delta": run.message_text(event.message_id)}
            return {"type": "TEXT_MESSAGE_CHUNK", "messageId": event.message_id, **text}
        return None

    def end(self, span: ResponseSpan) -> Sequence[AgUiEvent]:
        """Return the last frames: client tool calls, an interrupt, or the outcome."""
        state, usage = span.run.state, _usage(span.used, span.run.state.model)
        finished = {"type": "RUN_FINISHED", **self._ids, **usage}
        if calls := client_calls(span):
            told = [self._call(call.call_id, call.name, call.arguments) for call in calls]
            pending = [call.call_id for call in calls]
            return [*told, finished | {"outcome": {"type": "success", "pendingToolCallIds": pending}}]
        if span.person_ask is not None:
            interrupts = [interrupt_of(span.person_ask)]
            return [finished | {"outcome": {"type": "interrupt", "interrupts": interrupts}}]
        return [self._ended(state, finished, usage)]

    def _ended(self, run: Run, finished: AgUiEvent, usage: AgUiEvent) -> AgUiEvent:
        match run.outcome:
            case "completed" | "refused":
                return finished | {"outcome": {"type": "success"}}
            case "cancelled":
                return finished | {"outcome": {"type": "cancelled"}}
            case _:
                text, code = error_of(run), code_of(run)
                return {"type": "RUN_ERROR", "message": text, "code": code, **usage}

    def _current(self) -> str:
        """The message that the model's current answer is."""
        if self._answer_is_over:
            self._message += 1
            self._answer_is_over = False
        return f"{self._prefix}-{self._message}"

    def _call(self, call_id: str, name: str, arguments: str) -> AgUiEvent:
        return {
            "type": "TOOL_CALL_CHUNK",
            "toolCallId": call_id,
            "toolCallName": name,
            "parentMessageId": self._current(),
            "delta": arguments,
        }

    def _result(self, event: e.ToolEnded) -> AgUiEvent:
        self._answer_is_over = True
        result = {"messageId": f"{event.tool_call_id}-result", "toolCallId": event.tool_call_id}
        told = {"content": event.result, "role": "tool"}
        failed = {} if event.ok else {"metadata": {"holdfast": {"error": True, "ending": event.ending}}}
        return {"type": "TOOL_CALL_RESULT", **result, **told, **failed}


def interrupt_of(asked: e.PersonAsked) -> AgUiEvent:
    """An approval or a question, with the schema of its answer."""
    interrupt: AgUiEvent = {
        "id": asked.ask_id,
        "toolCallId": asked.tool_call_id,
        "metadata": {"holdfast": msgspec.to_builtins(ask_of(asked))},
    }
    if asked.expires_at_ms:
        interrupt["expiresAt"] = datetime.fromtimestamp(asked.expires_at_ms / 1000, UTC).isoformat()
    if isinstance(asked, e.QuestionAsked):
        examples = {"examples": list(asked.choices)} if asked.choices else {}
        fields = {"answer": {"type": "string", **examples}}
        schema = {"type": "object", "properties": fields, "required": ["answer"]}
        return interrupt | {"reason": "question", "message": asked.text, "responseSchema": schema}
    fields = {
        "choice": {"type": "string", "enum": list(asked.choices)},
        "reason": {"type": "string"},
    }
    return interrupt | {
        "reason": "approval",
        "message": asked.headline or asked.action.summary,
        "responseSchema": {"type": "object", "properties": fields, "required": ["choice"]},
    }


def _arguments(event: e.ToolAsked) -> str:
    return event.bad_args or _encode(event.args).decode()


def _usage(used: Tally, model: str) -> AgUiEvent:
    if not used.input_tokens and not used.output_tokens:
        return {}
    tokens = {
        "inputTokens": used.input_tokens,
        "outputTokens": used.output_tokens,
        "totalTokens": used.input_tokens + used.output_tokens,
        "cachedInputTokens": used.cached_tokens,
        "cacheWriteInputTokens": used.cache_write_tokens,
        "reasoningTokens": used.reasoning_tokens,
    }
    return {"usage": [({"model": model} if model else {}) | tokens]}


class AgUiFeed(SpanFeed):
    """The frames of a run for an AG-UI client; `seen` is the cursor of one who resumes."""

    def __init__(self, deps: RouteDeps, row: RunRow, view: AgUiView, *, after: int, seen: int | None) -> None:
        # With a cursor, the stream is the rest of one that has begun already.
        pending = [_sse(view.begin(), seq=after)] if seen is None else []
        super().__init__(deps.store, deps.folds, row, after=after, pending=pending)
        self._deps = deps
        self._view = view
        self._seen = seen or 0
        self._shown = ""

    def _line(self, silent_s: float) -> str | None:
        """The live line; None while the run isn't active."""
        return self._deps.peers.line(self._row.session_id, self._row.run_id, silent_s=silent_s)

    @override
    def _encoded(self, record: Record, added: Added, run: RunFold) -> list[bytes]:
        event = ask_event(record.event)
        if isinstance(event, e.RunEnded | e.ClientToolsAsked | e.PersonAsked):
            self.is_over = True
            client = event if isinstance(event, e.ClientToolsAsked) else None
            person = event if isinstance(event, e.PersonAsked) else None
            *before, last = self._view.end(ResponseSpan(run, client, person, used=self._used))
            return [*map(_sse, before), _sse(last, seq=record.seq)]
        told = self._view.add(event, added, run)
        return [] if told is None or record.seq <= self._seen else [_sse(told, seq=record.seq)]

    @override
    def ephemeral_frames(self, silent_s: float) -> Sequence[bytes]:
        line = self._line(silent_s)
        if silent_s < self._deps.limits.live_after_s or not line or line == self._shown:
            return ()
        self._shown = line
        return [_sse({"type": "CUSTOM", "name": "holdfast.live", "value": {"text": line}})]

    @override
    def next_check_s(self, silent_s: float) -> float | None:
        return self._deps.limits.next_live_s(silent_s)


def _sse(event: AgUiEvent, *, seq: int | None = None) -> bytes:
    name = b"" if seq is None else b"id: %d\n" % seq
    return b"%bdata: %b\n\n" % (name, _encode(event))
