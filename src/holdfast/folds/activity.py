"""What a run is doing right now, as a fold of its events: the states of the live line, with their words.

The page has the same tables (scripts/page_events.py writes them) and the same fold (view/doing.ts); the
golden logs hold the two together. What the log does not say, such as a call's next deadline, comes from
models/status_lines.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from holdfast import events as e
from holdfast.folds.asks import SETTLED_STATES, AskKind, kind_of, settlement

ActivityName: TypeAlias = Literal[
    "queued",
    "starting",
    "between",
    "waiting",
    "thinking",
    "answering",
    "pausing",
    "retrying",
    "gated",
    "compacting",
    "asking",
    "next",
    "tool",
    "tools",
    "approval",
    "question",
    "stopping",
    "resumed",
    "ended",
]

WORDS: Mapping[ActivityName, str] = MappingProxyType(
    {
        "queued": "queued",
        "starting": "starting",
        "between": "working",
        "waiting": "waiting for {model}",
        "thinking": "{model} is thinking",
        "answering": "{model} is answering",
        "pausing": "{model} is working",
        "retrying": "retrying",
        "gated": "waiting for the provider",
        "compacting": "summarizing the conversation",
        "asking": "{model} wants to run {tool}",
        "next": "about to run {tool}",
        "tool": "running {tool}",
        "tools": "running {count} tools",
        "approval": "waiting for your approval",
        "question": "waiting for your answer",
        "stopping": "stopping",
        "resumed": "resuming after a {after}",
        "ended": "",
    }
)

# After an event of this type the run is doing this, unless a tool, a person or a stop says more.
AFTER: Mapping[type[e.Event], ActivityName] = MappingProxyType(
    {
        e.RunQueued: "queued",
        e.RunStarted: "starting",
        e.CallStarted: "between",
        e.AttemptStarted: "waiting",
        e.AttemptFailed: "retrying",
        e.TextDelta: "answering",
        e.TextDone: "pausing",
        e.ReasoningDelta: "thinking",
        e.ReasoningDone: "pausing",
        e.CallGated: "gated",
        e.CallEnded: "between",
        e.ContextCompacted: "between",
        e.ToolAsked: "asking",
        e.ToolStarted: "between",
        e.ToolEnded: "between",
        e.ApprovalAsked: "between",
        e.ApprovalAnswered: "between",
        e.ApprovalExpired: "between",
        e.ApprovalWithdrawn: "between",
        e.QuestionAsked: "between",
        e.QuestionAnswered: "between",
        e.QuestionExpired: "between",
        e.QuestionWithdrawn: "between",
        e.StopRequested: "stopping",
        e.RunResumed: "resumed",
        e.RunEnded: "ended",
    }
)

# Here words keep coming, so that a number of seconds beside them would say nothing.
MOVING = frozenset({"answering", "thinking"})
# Here the log says all there is to say; elsewhere the server may know more (see models/status_lines.py).
CERTAIN = frozenset({"stopping", "approval", "question"})


@dataclass(slots=True)
class Activity:
    """What the newest events of one run say of it; plain data, so that a page can go on from it."""

    latest: ActivityName = "queued"
    changed_ms: int = 0  # when the state that people see began
    compacting: bool = False  # one thing to people, however its call goes
    model: str = ""
    after: str = ""  # a crash or a restart
    stopping: bool = False
    asked: list[str] = field(default_factory=list[str])  # tool calls that have not begun
    running: dict[str, int] = field(default_factory=dict[str, int])  # those that have, and when
    # open ones: of which kind, and about which tool call
    asks: dict[str, tuple[AskKind, str]] = field(default_factory=dict[str, tuple[AskKind, str]])

    @property
    def name(self) -> ActivityName:
        """The state that people are told."""
        if self.latest == "ended":
            return "ended"
        if self.stopping:
            return "stopping"
        # A later call may wait for a person meanwhile: the card says so, the line says what happens.
        if self.running and (at_work := self.at_work):
            return "tool" if len(at_work) == 1 else "tools"
        if self.asks:
            return "approval" if "approval" in [kind for kind, _ in self.asks.values()] else "question"
        if self.latest == "between" and self.asked:
            return "next"
        return "compacting" if self.compacting else self.latest

    @property
    def at_work(self) -> list[str]:
        """The tool calls that do something, and do not wait for a person."""
        waiting = {id_ for _, id_ in self.asks.values()}
        return [id_ for id_ in self.running if id_ not in waiting]

    @property
    def tool_call_id(self) -> str:
        """The tool call that the state is about, if it is about one."""
        match self.name:
            case "tool":
                return self.at_work[0]
            case "next":
                return self.asked[0]
            case "asking":
                return self.asked[-1]
            case _:
                return ""

    @property
    def since_ms(self) -> int:
        """Since when; a tool's own time, even if others ran beside it for a while."""
        return self.running[self.tool_call_id] if self.name == "tool" else self.changed_ms

    def take(self, event: e.Event) -> None:
        """One more event of the run."""
        kind = type(event)
        latest = AFTER.get(kind)
        if latest is None or (latest in MOVING and latest == self.latest):
            return
        was = self.name, self.tool_call_id
        self.latest = latest
        step = _STEPS.get(kind)
        if step is not None:
            step(self, event)
        if was != (self.name, self.tool_call_id):
            self.changed_ms = event.at_ms

    def words(self, *, tool: str = "") -> str:
        """The state in words; `tool` is what its tool call is to do."""
        return WORDS[self.name].format(
            model=self.model or "the model", tool=tool or "a tool", count=len(self.at_work), after=self.after
        )


def _call_started(activity: Activity, event: e.CallStarted) -> None:
    activity.compacting = event.purpose == "compaction"


def _compacted(activity: Activity, _: e.ContextCompacted) -> None:
    activity.compacting = False


def _attempt_started(activity: Activity, event: e.AttemptStarted) -> None:
    activity.model = event.model or event.target
    # What an attempt before it asked for counts no more, or it would have been run.
    activity.asked = []


def _tool_asked(activity: Activity, event: e.ToolAsked) -> None:
    activity.asked = [*activity.asked, event.tool_call_id]


def _tool_started(activity: Activity, event: e.ToolStarted) -> None:
    activity.asked = [one for one in activity.asked if one != event.tool_call_id]
    activity.running[event.tool_call_id] = event.at_ms


def _tool_ended(activity: Activity, event: e.ToolEnded) -> None:
    activity.asked = [one for one in activity.asked if one != event.tool_call_id]
    activity.running.pop(event.tool_call_id, None)


def _ask(activity: Activity, event: e.AskAsked) -> None:
    activity.asks[event.ask_id] = kind_of(event), event.tool_call_id


def _ask_over(activity: Activity, event: e.AskSettled) -> None:
    kind, tool_call_id = activity.asks.pop(event.ask_id, (kind_of(event), ""))
    how = settlement(event)
    if kind == "approval" and (how.state != "answered" or how.answer == "deny"):
        # It will not run, so nobody may read that it is about to.
        activity.asked = [one for one in activity.asked if one != tool_call_id]


def _stop(activity: Activity, _: e.StopRequested) -> None:
    activity.stopping = True


def _resumed(activity: Activity, event: e.RunResumed) -> None:
    activity.after, activity.compacting = event.after, False
    # No process of an earlier life is at work; what becomes of its tools is said one by one.
    activity.asked = [*activity.running, *activity.asked]
    activity.running = {}


def _ended(activity: Activity, _: e.RunEnded) -> None:
    activity.asked, activity.running, activity.asks = [], {}, {}


_STEPS: Mapping[type[e.Event], Callable[[Activity, Any], None]] = MappingProxyType(
    {
        e.CallStarted: _call_started,
        e.ContextCompacted: _compacted,
        e.AttemptStarted: _attempt_started,
        e.ToolAsked: _tool_asked,
        e.ToolStarted: _tool_started,
        e.ToolEnded: _tool_ended,
        e.ApprovalAsked: _ask,
        e.QuestionAsked: _ask,
        **dict.fromkeys(SETTLED_STATES, _ask_over),
        e.StopRequested: _stop,
        e.RunResumed: _resumed,
        e.RunEnded: _ended,
    }
)
