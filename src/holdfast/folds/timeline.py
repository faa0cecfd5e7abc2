"""Where a run's time went: a timeline computed from the events alone."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from holdfast import events as e
from holdfast.codec import type_of
from holdfast.events.modes import mode_of
from holdfast.folds.activity import Activity
from holdfast.folds.feature_folds import TIMELINE_TEXTS
from holdfast.values import Undo

Spent: TypeAlias = Literal[
    "queued", "waiting", "streaming", "stalled", "retrying", "gated", "tools", "people", "away", "between"
]
TEXT_CHARS_MAX = 60
STALLS = frozenset({"no_first_event", "stalled", "upload_stalled"})

WORDS: Mapping[Spent, str] = MappingProxyType(
    {
        "queued": "queued",
        "waiting": "waiting for the model",
        "streaming": "receiving the answer",
        "stalled": "stalled until the watchdog stepped in",
        "retrying": "between attempts",
        "gated": "waiting as the provider asked",
        "tools": "running tools",
        "people": "waiting for a person",
        "away": "not running (crash or restart)",
        "between": "between steps",
    }
)

# These activities map directly; the rest is tools, people, or between steps.
_SPENT: Mapping[str, Spent] = MappingProxyType(
    {
        "queued": "queued",
        "waiting": "waiting",
        "answering": "streaming",
        "thinking": "streaming",
        "pausing": "streaming",
        "retrying": "retrying",
        "gated": "gated",
    }
)


class Line(Struct, frozen=True):
    """One event, or several deltas in a row, in readable form."""

    seq: int
    at_ms: int
    since_ms: int  # since the first event
    type: str
    text: str
    times: int = 1


class Timeline(Struct):
    """The lines of a log, and its time by category."""

    lines: list[Line] = field(default_factory=list[Line])
    spent_ms: dict[Spent, int] = field(default_factory=dict[Spent, int])

    @property
    def total_ms(self) -> int:
        """From the first event to the last."""
        return self.lines[-1].since_ms if self.lines else 0


def timeline(pairs: Iterable[tuple[int, e.Event]]) -> Timeline:
    """The timeline of a whole log, or of a part of one."""
    result, spending = Timeline(), Spending()
    before_ms = 0
    for seq, event in pairs:
        spent = spending.until(event)
        if result.lines:
            result.spent_ms[spent] = result.spent_ms.get(spent, 0) + max(0, event.at_ms - before_ms)
        _add(result, seq, event)
        before_ms = event.at_ms
    return result


class Spending:
    """Tells for each event how the time since the previous one was spent."""

    def __init__(self) -> None:
        self._activity = Activity("between")
        self._is_paused = False  # the queue, until a person resumes it

    def until(self, event: e.Event) -> Spent:
        """How the time up to this event was spent."""
        spent = self._spent(event)
        self._activity.take(event)
        if isinstance(event, e.QueuePaused | e.QueueResumed):
            self._is_paused = isinstance(event, e.QueuePaused)
        return spent

    def _spent(self, event: e.Event) -> Spent:
        activity = self._activity
        if isinstance(event, e.RunResumed):
            return "away"
        if isinstance(event, e.AttemptFailed) and event.failure.kind in STALLS:
            return "stalled"
        if activity.latest == "queued" and self._is_paused:
            return "people"
        if activity.latest in _SPENT:
            return _SPENT[activity.latest]
        if activity.at_work:
            return "tools"
        return "people" if activity.asks else "between"


def _add(result: Timeline, seq: int, event: e.Event) -> None:
    kind, text = type_of(event), _text(event)
    first_ms = max(0, event.at_ms - result.lines[0].at_ms) if result.lines else 0
    last = result.lines[-1] if result.lines else None
    if (
        last is not None
        and last.type == kind
        and isinstance(event, e.TextDelta | e.ReasoningDelta | e.ToolOutput)
    ):
        joined = _short(last.text + text)
        result.lines[-1] = Line(last.seq, last.at_ms, last.since_ms, kind, joined, last.times + 1)
    else:
        result.lines.append(Line(seq, event.at_ms, first_ms, kind, _short(text)))


def _short(text: str) -> str:
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= TEXT_CHARS_MAX else line[: TEXT_CHARS_MAX - 1] + "…"


def _undo_text(undo: Undo) -> str:
    return f", {undo.files} files as before" + (" the undo" if undo.redoes else "")


def _mode_text(event: e.ModeSet) -> str:
    return mode_of(event) or "as configured"


_TEXTS: Mapping[type[e.Event], Callable[[Any], str]] = MappingProxyType(
    {
        e.SessionRewound: lambda event: f"to {event.to_seq}" + (_undo_text(event.undo) if event.undo else ""),
        e.SessionMoved: lambda event: f"to {event.home}" if event.home else "to any machine",
        e.SessionModeSet: _mode_text,
        e.PermissionModeSet: _mode_text,
        e.AttemptStarted: lambda event: (
            f"#{event.nth} {event.target} {event.model}"
            + (f", reconnected {event.reconnects} times" if event.reconnects else "")
        ),
        e.AttemptFailed: lambda event: f"{event.close_reason}: {event.failure.text}",
        e.ToolAsked: lambda event: event.name,
        e.ToolEnded: lambda event: f"{event.ending}: {event.result}",
        e.ApprovalAsked: lambda event: event.action.summary,
        e.ApprovalAnswered: lambda event: event.choice,
        e.QuestionAnswered: lambda event: event.answer,
        e.ClientToolsAsked: lambda event: f"{len(event.tool_call_ids)} calls for the client",
        e.TargetSwitched: lambda event: f"{event.from_target} → {event.to_target}: {event.why}",
        e.Usage: lambda event: (
            f"{event.input_tokens - event.cached_tokens} new + {event.cached_tokens} cached in, "
            f"{event.output_tokens} out"
        ),
        e.ContextRead: lambda event: ", ".join(event.sources),
        e.ContextSet: lambda event: (
            event.reason if event.reason == "first" else f"cache broken by: {event.reason}"
        ),
        e.ContextNoted: lambda event: event.text,
        e.StopRequested: lambda event: event.cause,
        e.RunResumed: lambda event: f"after {event.after}",
        e.RunEnded: lambda event: " ".join(x for x in (event.outcome, event.cause) if x),
        e.ContextCompacted: lambda event: (
            f"up to {event.upto_seq}" + (event.failure and f": {event.failure}")
        ),
        e.ContextTrimmed: lambda event: f"{len(event.results)} tool results",
        e.ContextCompactionFailed: lambda event: event.failure,
        e.ContextReverted: lambda event: f"{event.reverted_seq}",
        e.MessagePinned: lambda event: event.message_id or event.answer_of,
        e.MessageUnpinned: lambda event: event.message_id or event.answer_of,
        e.AttachmentsSaved: lambda event: ", ".join(file.path or file.name for file in event.files),
        **TIMELINE_TEXTS,
    }
)


def _text(event: e.Event) -> str:
    if describe := _TEXTS.get(type(event)):
        return describe(event)
    return str(getattr(event, "text", "") or getattr(event, "title", ""))


def rendered(result: Timeline) -> Sequence[str]:
    """The timeline as plain lines: seq, seconds since the start, type and text; then the totals."""
    lines = [
        f"{line.seq:>6}  {line.since_ms / 1000:>9.3f} s  {line.type:<19} "
        + (f"(in {line.times} pieces) " if line.times > 1 else "")
        + line.text
        for line in result.lines
    ]
    total_ms = max(1, result.total_ms)
    sums = sorted(result.spent_ms.items(), key=lambda item: -item[1])
    bars = [
        f"{ms / 1000:>9.3f} s  {'█' * max(1, round(30 * ms / total_ms)):<30}  {WORDS[spent]}"
        for spent, ms in sums
        if ms > 0
    ]
    return [*lines, "", f"{result.total_ms / 1000:.3f} s in all:", *bars]
