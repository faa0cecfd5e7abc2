"""The hermes view: the events of one run as frames that hermes clients know.

A frame is a pure function of an event and the run's fold after it. One event gives at most one frame, so that
its seq is a safe cursor.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from holdfast import events as e
from holdfast.folds.asks import SETTLED_STATES, ask_event, ask_kind
from holdfast.folds.session_fold import RunFold
from holdfast.server.runs.run_report import (
    PREVIEW_CHARS_MAX,
    ask_of,
    client_calls_of,
    code_of,
    error_of,
    preview,
    tool_args,
    tool_name,
    usage_of,
)
from holdfast.values import OutcomeKind

OUTPUT_BYTES_MAX = 100_000
# Event names for hermes-webui's page; its server forwards the names that it polls.
WEB_UI_AGENT = "hermes-webui-"
WEB_UI_NAMES: Mapping[str, str] = MappingProxyType(
    {"approval.request": "approval", "question.request": "clarify"}
)
ALIASES: Mapping[str, str] = MappingProxyType({"approve": "once", "allow": "once"})

Frame: TypeAlias = dict[str, Any]

TERMINAL_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "completed": "run.completed",
        "refused": "run.completed",
        "truncated": "run.failed",
        "budget": "run.failed",
        "failed": "run.failed",
        "interrupted": "run.failed",
        "cancelled": "run.cancelled",
    }
)


def _approval(asked: e.ApprovalAsked) -> Frame:
    """An approval, also under the name by which hermes clients answer it."""
    return {**msgspec.to_builtins(ask_of(asked)), "request_id": asked.approval_id}


def _question(asked: e.QuestionAsked) -> Frame:
    """A question, also in the words of hermes-webui's clarifications."""
    shown: Frame = msgspec.to_builtins(ask_of(asked))
    left_s = (asked.expires_at_ms - asked.at_ms) // 1000 if asked.expires_at_ms else 0
    web_ui = {"kind": "clarify", "clarify_id": asked.question_id, "choices_offered": list(asked.choices)}
    return shown | web_ui | {"requested_at": asked.at_ms / 1000, "timeout_seconds": left_s}


def _settled_ask(_: RunFold, event: e.AskSettled) -> Frame:
    """How an ask was settled; hermes clients look up a question's answer themselves."""
    fields: Frame = {f"{ask_kind(event)}_id": event.ask_id}
    if ask_kind(event) == "approval":
        fields["request_id"] = event.ask_id  # hermes clients' name
    match event:
        case e.ApprovalAnswered():
            return fields | {"choice": event.choice, "resolved": 1}
        case e.ApprovalExpired():
            return fields | {"cause": "expired"}
        case e.ApprovalWithdrawn():
            return fields | {"cause": event.cause}
        case _:
            return fields


def milestone_of(run: RunFold) -> str:
    """The name of the run's newest frame that isn't a delta."""
    if run.milestone is e.RunEnded:
        return TERMINAL_NAMES[run.state.outcome or "failed"]
    return _NAMES[run.milestone]


def frame_of(event: e.Event, run: RunFold) -> Frame | None:
    """The frame of an event of the run, if it has one; `run` is the run as it is after the event."""
    if text := run.added_text:
        return {"event": "message.delta", "delta": text}
    return named_frame(event, run)


def named_frame(event: e.Event, run: RunFold) -> Frame | None:
    """The same for an event without text; for tools and requests, `run` may be ahead of the event."""
    event = ask_event(event)  # what a sub-agent asks looks as if the run itself asked
    kind = type(event)
    if kind not in _FIELDS:
        return None
    fields = _FIELDS[kind](run, event)
    if fields is None:
        return None
    name = TERMINAL_NAMES[event.outcome] if isinstance(event, e.RunEnded) else _NAMES[kind]
    return {"event": name, **fields}


def _reasoning(run: RunFold, event: e.ReasoningDelta) -> Frame | None:
    return {"delta": event.text} if run.state.answers else None


def _reasoning_done(run: RunFold, event: e.ReasoningDone) -> Frame | None:
    return {"text": event.text} if event.text and run.state.answers else None


def _tool_started(run: RunFold, event: e.ToolStarted) -> Frame:
    args = tool_args(run, event.tool_call_id)
    return {
        "tool": tool_name(run, event.tool_call_id),
        "tool_call_id": event.tool_call_id,
        "preview": preview(args),
        "args": args,
    }


def _tool_ended(run: RunFold, event: e.ToolEnded) -> Frame:
    return {
        "tool": tool_name(run, event.tool_call_id),
        "tool_call_id": event.tool_call_id,
        "duration": event.ms / 1000,
        "error": not event.ok,
        "result": event.result,
        "ending": event.ending,
    }


def _steered(run: RunFold, event: e.MessageDispatched) -> Frame | None:
    if event.message_id == run.state.message_id:
        return None
    return {
        "message_id": event.message_id,
        "text": run.message_text(event.message_id)[:PREVIEW_CHARS_MAX],
    }


def _terminal(run: RunFold, event: e.RunEnded) -> Frame:
    state, text = run.state, run.output
    fields: Frame = {"outcome": event.outcome, "usage": msgspec.to_builtins(usage_of(state))}
    if text or event.outcome in {"completed", "refused"}:
        fields["output"] = text
    if event.outcome == "refused":
        fields["finish_reason"] = "refusal"
    elif event.outcome == "cancelled":
        fields["cause"] = event.cause
    elif event.outcome != "completed":
        fields |= {"error": error_of(state), "code": code_of(state)}
    return fields


_CHILD_STATUSES: Mapping[OutcomeKind, str] = MappingProxyType(
    {
        "completed": "completed",
        "refused": "completed",
        "interrupted": "interrupted",
        "cancelled": "interrupted",
    }
)


def _child(run: RunFold, started: e.ChildStarted) -> Frame:
    """A sub-agent; hermes starts several with one call, so it counts them."""
    task = tool_args(run, started.tool_call_id).get("task")
    return {
        "subagent_id": started.name,
        "child_session_id": started.child_id,
        "tool_call_id": started.tool_call_id,
        "goal": task if isinstance(task, str) else "",
        "task_index": 0,
        "task_count": 1,
    }


def _child_ended(run: RunFold, event: e.ChildEnded) -> Frame | None:
    child = run.state.children.get(event.child_id)
    if child is None:
        return None
    return {
        **_child(run, child.started),
        "status": _CHILD_STATUSES.get(event.outcome, "failed"),
        "summary": event.result or event.cause,
        "duration_seconds": (event.at_ms - child.started.at_ms) / 1000,
        "input_tokens": event.used.input_tokens,
        "output_tokens": event.used.output_tokens,
    }


_NAMES: Mapping[type[e.Event], str] = MappingProxyType(
    {
        e.RunQueued: "run.queued",
        e.RunStarted: "run.started",
        e.RunResumed: "run.resumed",
        e.MessageDispatched: "run.steered",
        e.ReasoningDelta: "reasoning.delta",
        e.ReasoningDone: "reasoning.available",
        e.ToolStarted: "tool.started",
        e.ToolEnded: "tool.completed",
        e.ChildStarted: "subagent.start",
        e.ChildEnded: "subagent.complete",
        e.ApprovalAsked: "approval.request",
        e.ApprovalAnswered: "approval.responded",
        e.ApprovalExpired: "approval.expired",
        e.ApprovalWithdrawn: "approval.expired",
        e.QuestionAsked: "question.request",
        e.QuestionAnswered: "question.responded",
        e.QuestionExpired: "question.expired",
        e.QuestionWithdrawn: "question.expired",
        e.ClientToolsAsked: "client_tools.request",
        e.ClientToolsAnswered: "client_tools.responded",
        e.ClientToolsExpired: "client_tools.expired",
        e.ClientToolsWithdrawn: "client_tools.expired",
    }
)
_FIELDS: Mapping[type[e.Event], Callable[[RunFold, Any], Frame | None]] = MappingProxyType(
    {
        e.RunQueued: lambda _, event: {"message_id": event.message_id},
        e.RunStarted: lambda _, __: {},
        e.RunResumed: lambda _, event: {"after": event.after},
        e.MessageDispatched: _steered,
        e.ReasoningDelta: _reasoning,
        e.ReasoningDone: _reasoning_done,
        e.ToolStarted: _tool_started,
        e.ToolEnded: _tool_ended,
        e.ChildStarted: _child,
        e.ChildEnded: _child_ended,
        e.ApprovalAsked: lambda _, event: _approval(event),
        e.QuestionAsked: lambda _, event: _question(event),
        e.ClientToolsAsked: lambda run, event: msgspec.to_builtins(client_calls_of(run, event)),
        **dict.fromkeys(SETTLED_STATES, _settled_ask),
        e.RunEnded: _terminal,
    }
)


_encode = msgspec.json.Encoder().encode
_LONG = (
    "output",
    "result",
    "error",
    "text",
    "command",
    "description",
    "question",
    "preview",
    "goal",
    "summary",
)


def sse(seq: int, run_id: str, *, at_ms: int, frame: Frame) -> bytes:
    """The frame as bytes; texts that are too long are shortened and marked."""
    shown = {"event": frame["event"], "run_id": run_id, "timestamp": at_ms / 1000, "seq": seq, **frame}
    if not frame["event"].endswith(".delta") and _is_long(shown):
        shown = shortened(shown)
    return b"id: %d\ndata: %b\n\n" % (seq, _encode(shown))


def _is_long(frame: Frame) -> bool:
    """Whether the frame is too long; finds out without encoding megabytes."""
    texts = [text for name in _LONG if isinstance(text := frame.get(name), str)]
    return sum(map(len, texts)) > OUTPUT_BYTES_MAX or len(_encode(frame)) > OUTPUT_BYTES_MAX


def shortened(frame: Frame) -> Frame:
    """The frame with long fields cut; the run's own route has them whole."""
    short = dict(frame)
    room = OUTPUT_BYTES_MAX
    for name in _LONG:
        text = short.get(name)
        if isinstance(text, str) and len(text) > PREVIEW_CHARS_MAX:
            cut = _cut(text, room)
            room -= len(_encode(cut))
            if cut != text:
                short[name], short[f"{name}_truncated"] = cut, True
    for name in ("args", "action", "findings"):
        if name in short and len(_encode(short[name])) > room:
            short[name], short[f"{name}_truncated"] = type(short[name])(), True
    return short


def _cut(text: str, bytes_max: int) -> str:
    """The beginning of the text that fits into this many bytes of JSON."""
    bytes_max = max(bytes_max, 0)
    text = text[:bytes_max]
    while len(_encode(text)) > bytes_max + 2:
        text = text[: int(len(text) * 0.7)]
    return text
