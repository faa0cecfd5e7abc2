"""The hermes view: the events of one run as frames that hermes clients know.

A frame is a pure function of the run's events up to its own: one event gives at most one frame, so that its
seq is a safe cursor. `RunFrames` keeps what a frame needs of earlier events.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import msgspec

from holdfast import events as e
from holdfast.folds import transcript
from holdfast.folds.entries import ending_words
from holdfast.folds.run import Run, apply_to_run, queued_run
from holdfast.folds.transcript import Transcript, output
from holdfast.server.streams.append_only_text import AppendOnlyText

OUTPUT_BYTES_MAX = 100_000
PREVIEW_CHARS_MAX = 200
ALIASES: Mapping[str, str] = MappingProxyType({"approve": "once", "allow": "once"})

Frame: TypeAlias = dict[str, Any]
Status: TypeAlias = Literal[
    "queued", "running", "waiting_for_approval", "stopping", "completed", "failed", "interrupted", "cancelled"
]

STATUSES: Mapping[str, Status] = MappingProxyType(
    {
        "completed": "completed",
        "refused": "completed",
        "truncated": "failed",
        "budget": "failed",
        "failed": "failed",
        "interrupted": "interrupted",
        "cancelled": "cancelled",
    }
)
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
_INTERRUPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "restart": (
            "The server was restarted while the run was under way, and on_restart says that such a run does "
            "not go on. What it said and did so far is kept: send the message again, or retry the run."
        ),
        "crash_loop": (
            "The server ended three times in a row while it carried this run out, so it was not tried again. "
            "What it said and did so far is kept. Look for the cause in the server's log, then retry the run."
        ),
    }
)


def usage_of(run: Run) -> dict[str, Any]:
    """The run's usage in hermes' words."""
    usage = run.usage
    shown: dict[str, Any] = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
    if usage.cost_usd:
        shown["cost_usd"] = usage.cost_usd
    return shown


def error_of(run: Run) -> str:
    """Why the run did not complete, in words for a person."""
    if run.failure is not None:
        return "\n".join([run.failure.text, *run.trace])
    if run.outcome is None:
        return run.cause
    if run.outcome == "budget" and run.trace:
        return "\n".join(run.trace)
    if run.outcome == "interrupted" and run.cause in _INTERRUPTIONS:
        return _INTERRUPTIONS[run.cause]
    return f"{ending_words(run.outcome, run.cause, failure=None)}."


def code_of(run: Run) -> str:
    """The same in one word for a program."""
    if run.outcome == "interrupted":
        return "interrupted"
    if run.outcome in {"truncated", "budget"}:
        return str(run.outcome)
    return run.cause or str(run.outcome)


def approval_of(asked: e.ApprovalAsked) -> Frame:
    """What a person is asked to decide."""
    action = asked.action
    return {
        "approval_id": asked.approval_id,
        "tool_call_id": asked.tool_call_id,
        "tool": action.tool,
        "command": action.summary,
        "description": "; ".join(asked.findings) or action.summary,
        "findings": list(asked.findings),
        "action": msgspec.to_builtins(action),
        "choices": list(asked.choices),
        "expires_at": asked.expires_at_ms / 1000 if asked.expires_at_ms else None,
    }


def question_of(asked: e.QuestionAsked) -> Frame:
    """What a person is asked to say."""
    return {
        "question_id": asked.question_id,
        "tool_call_id": asked.tool_call_id,
        "question": asked.text,
        "choices": list(asked.choices),
        "expires_at": asked.expires_at_ms / 1000 if asked.expires_at_ms else None,
    }


class RunFrames:
    """One run, event by event, from its queueing on: its state, what it said, and its frames."""

    def __init__(self) -> None:
        self.run: Run | None = None
        self.seen = Transcript()
        self.last_event = "run.queued"
        self._restarts = AppendOnlyText()

    @property
    def known_run(self) -> Run:
        """The run, of which at least the first event is known."""
        assert self.run is not None, "what has an ending has a beginning"
        return self.run

    @property
    def output(self) -> str:
        """The clean answer so far."""
        return output(self.seen, self.run.run_id) if self.run else ""

    def add(self, seq: int, event: e.Event) -> Frame | None:
        """The event's frame, if it has one; events of other runs must not come here."""
        if isinstance(event, e.RunQueued):
            if self.run is None:
                self.run = queued_run(seq, event)
        elif self.run is not None and not isinstance(event, e.MessageAccepted):
            apply_to_run(self.run, seq, event)
        transcript.apply(self.seen, seq, event)
        text = self._restarts.add(event)
        if text:
            return {"event": "message.delta", "delta": text}
        make = _FRAMES.get(type(event))
        frame = make(self, event) if make and self.run else None
        if frame is not None and not frame["event"].endswith(".delta"):
            self.last_event = frame["event"]
        return frame

    def tool_name(self, tool_call_id: str) -> str:
        """What the tool of a call is called."""
        call = self.run.tools.get(tool_call_id) if self.run else None
        return call.asked.name if call else ""

    def tool_args(self, tool_call_id: str) -> dict[str, object]:
        """What the model gave to a tool."""
        call = self.run.tools.get(tool_call_id) if self.run else None
        return call.asked.args if call else {}


def _reasoning(frames: RunFrames, event: e.ReasoningDelta) -> Frame | None:
    return {"event": "reasoning.delta", "delta": event.text} if frames.known_run.answers else None


def _reasoning_done(frames: RunFrames, event: e.ReasoningDone) -> Frame | None:
    if not event.text or not frames.known_run.answers:
        return None
    return {"event": "reasoning.available", "text": event.text}


def _tool_started(frames: RunFrames, event: e.ToolStarted) -> Frame:
    args = frames.tool_args(event.tool_call_id)
    return {
        "event": "tool.started",
        "tool": frames.tool_name(event.tool_call_id),
        "tool_call_id": event.tool_call_id,
        "preview": preview(args),
        "args": args,
    }


def _tool_ended(frames: RunFrames, event: e.ToolEnded) -> Frame:
    return {
        "event": "tool.completed",
        "tool": frames.tool_name(event.tool_call_id),
        "tool_call_id": event.tool_call_id,
        "duration": event.ms / 1000,
        "error": not event.ok,
        "result": event.result,
        "ending": event.ending,
    }


def _steered(frames: RunFrames, event: e.MessageDispatched) -> Frame | None:
    if frames.run is None or event.message_id == frames.run.message_id:
        return None
    message = frames.seen.inbox.messages.get(event.message_id)
    return {
        "event": "run.steered",
        "message_id": event.message_id,
        "text": message.text[:PREVIEW_CHARS_MAX] if message else "",
    }


def _terminal(frames: RunFrames, event: e.RunEnded) -> Frame:
    run, text = frames.run, frames.output
    assert run is not None
    frame: Frame = {"event": TERMINAL_NAMES[event.outcome], "outcome": event.outcome, "usage": usage_of(run)}
    if text or event.outcome in {"completed", "refused"}:
        frame["output"] = text
    if event.outcome == "refused":
        frame["finish_reason"] = "refusal"
    elif event.outcome == "cancelled":
        frame["cause"] = event.cause
    elif event.outcome != "completed":
        frame |= {"error": error_of(run), "code": code_of(run)}
    return frame


def _settled_question(name: str) -> Callable[[RunFrames, Any], Frame]:
    return lambda _, event: {"event": name, "question_id": event.question_id}


_FRAMES: Mapping[type[e.Event], Callable[[RunFrames, Any], Frame | None]] = MappingProxyType(
    {
        e.RunQueued: lambda _, event: {"event": "run.queued", "message_id": event.message_id},
        e.RunStarted: lambda _, __: {"event": "run.started"},
        e.RunResumed: lambda _, event: {"event": "run.resumed", "after": event.after},
        e.MessageDispatched: _steered,
        e.ReasoningDelta: _reasoning,
        e.ReasoningDone: _reasoning_done,
        e.ToolStarted: _tool_started,
        e.ToolEnded: _tool_ended,
        e.ApprovalAsked: lambda _, event: {"event": "approval.request", **approval_of(event)},
        e.ApprovalAnswered: lambda _, event: {
            "event": "approval.responded",
            "approval_id": event.approval_id,
            "choice": event.choice,
            "resolved": 1,
        },
        e.ApprovalExpired: lambda _, event: {
            "event": "approval.expired",
            "approval_id": event.approval_id,
            "cause": "expired",
        },
        e.ApprovalWithdrawn: lambda _, event: {
            "event": "approval.expired",
            "approval_id": event.approval_id,
            "cause": event.cause,
        },
        e.QuestionAsked: lambda _, event: {"event": "question.request", **question_of(event)},
        e.QuestionAnswered: _settled_question("question.responded"),
        e.QuestionExpired: _settled_question("question.expired"),
        e.QuestionWithdrawn: _settled_question("question.expired"),
        e.RunEnded: _terminal,
    }
)


def preview(args: Mapping[str, object]) -> str:
    """What a tool is about to do, in one line: its first argument that is text, or all of them."""
    texts = [value for value in args.values() if isinstance(value, str) and value.strip()]
    text = texts[0] if texts else msgspec.json.encode(args).decode() if args else ""
    return " ".join(text.split())[:PREVIEW_CHARS_MAX]


_encode = msgspec.json.Encoder().encode
_LONG = ("output", "result", "error", "text", "command", "description", "question", "preview")


def sse(seq: int, run_id: str, *, at_ms: int, frame: Frame) -> bytes:
    """The frame as it is sent; what is too long for a line is shortened, and says so."""
    shown = {"event": frame["event"], "run_id": run_id, "timestamp": at_ms / 1000, "seq": seq, **frame}
    if not frame["event"].endswith(".delta") and _is_long(shown):
        shown = shortened(shown)
    return b"id: %d\ndata: %b\n\n" % (seq, _encode(shown))


def _is_long(frame: Frame) -> bool:
    """Whether it is too long for a line; an answer of many megabytes is not encoded to find that out."""
    texts = [text for name in _LONG if isinstance(text := frame.get(name), str)]
    return sum(map(len, texts)) > OUTPUT_BYTES_MAX or len(_encode(frame)) > OUTPUT_BYTES_MAX


def shortened(frame: Frame) -> Frame:
    """The frame with long fields cut; whoever wants them whole asks for the run."""
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
    """The beginning of the text that takes so many bytes as JSON."""
    bytes_max = max(bytes_max, 0)
    text = text[:bytes_max]
    while len(_encode(text)) > bytes_max + 2:
        text = text[: int(len(text) * 0.7)]
    return text
