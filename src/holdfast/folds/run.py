"""The state of one run, as a fold of its events."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct, field

from holdfast import events as e
from holdfast.codec import type_of
from holdfast.folds.asks import SETTLED_STATES, Settlement, ask_event, ask_kind, settlement
from holdfast.folds.feature_folds import RUN_STEPS
from holdfast.folds.phases import TRANSITIONS, IllegalEvent, Phase
from holdfast.values import (
    WAITING_TOOLS,
    AskState,
    CallFinish,
    ChildUsage,
    ClientTool,
    ClientToolResult,
    Failure,
    OutcomeKind,
    PlanStep,
    RunSettings,
    ToolOwner,
)

DetailedStatus: TypeAlias = Literal[
    "queued", "running", "waiting_for_approval", "waiting_for_client", "stopping", "ended"
]

_DELTAS: Final = frozenset[type[e.Event]]((e.TextDelta, e.ReasoningDelta, e.ToolOutput))


class _Contradiction(Exception):
    """An event contradicts the run's state; becomes an IllegalEvent with its seq."""


class Tally(Struct):
    """The usage of calls so far. The cost is None if one call's cost is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = 0.0

    def add(self, used: "e.Usage | Tally") -> None:
        """Add one call, or another tally."""
        self.input_tokens += used.input_tokens
        self.output_tokens += used.output_tokens
        self.cached_tokens += used.cached_tokens
        self.cache_write_tokens += used.cache_write_tokens
        self.reasoning_tokens += used.reasoning_tokens
        unknown = self.cost_usd is None or used.cost_usd is None
        self.cost_usd = None if unknown else (self.cost_usd or 0.0) + (used.cost_usd or 0.0)


class CallState(Struct):
    """A tool call and its events: asked, then started, then ended."""

    asked: e.ToolAsked
    attempt_id: str
    owner: ToolOwner
    started: e.ToolStarted | None = None
    started_after_resumptions: int = 0
    ended: e.ToolEnded | None = None

    @property
    def own_tool(self) -> str:
        """The name of Holdfast's tool; empty if the call is the client's, whatever its tool is called."""
        return self.asked.name if self.owner == "holdfast" else ""


class AskStatus(Struct):
    """An ask, and how it was settled; `child_id` is the sub-agent that passed it on."""

    asked: e.AskAsked
    state: AskState = "open"
    child_id: str = ""
    seq: int = 0  # of the event that asked
    answer: str = ""
    by: str = ""
    reason: str = ""
    results: tuple[ClientToolResult, ...] = ()  # of tool calls that the client ran
    steps: tuple[PlanStep, ...] = ()  # of a plan that the person changed

    def settle(self, how: Settlement) -> None:
        """Close it."""
        self.state, self.answer, self.by, self.reason = how.state, how.answer, how.by, how.reason


class ChildState(Struct):
    """A sub-agent of the run: how it was started, and how it ended."""

    started: e.ChildStarted
    ended: e.ChildEnded | None = None


_ASKING: Final = frozenset[type[e.Event]](
    (e.ApprovalAsked, e.QuestionAsked, e.ClientToolsAsked, e.ChildAsked)
)
_NOT_ALLOWED = frozenset({"denied", "expired", "no_approver"})


class Run(Struct):
    """One run, from queueing to its ending."""

    run_id: str
    message_id: str
    settings: RunSettings
    first_seq: int
    last_seq: int
    created_ms: int
    updated_ms: int
    last_event: str
    api_key: str = ""  # the name of the key that it counts for
    phase: Phase = Phase.QUEUED
    outcome: OutcomeKind | None = None
    cause: str = ""
    failure: Failure | None = None
    trace: tuple[str, ...] = ()
    stop_cause: str = ""
    call_id: str = ""
    finish: CallFinish | None = None  # how the newest call ended; None while it is open
    turn: int = -1
    turns: int = 0
    attempt_id: str = ""
    attempt_is_open: bool = False
    target: str = ""
    model: str = ""
    gate_until_ms: int = 0
    awaits_model: bool = False  # waits for an unreachable model, or until a time that its provider named
    attempts: dict[str, str] = field(default_factory=dict[str, str])
    tools: dict[str, CallState] = field(default_factory=dict[str, CallState])
    asks: dict[str, AskStatus] = field(default_factory=dict[str, AskStatus])
    usage: Tally = field(default_factory=Tally)
    known_cost_usd: float = 0.0  # of calls whose price is known
    started_ms: int = 0
    taken_up_ms: int = 0  # when a process last started to work on it
    paused_ms: int = 0  # since then, time spent waiting for people or without a process
    waiting_since_ms: int = 0  # 0 while it isn't waiting for anyone
    answers: bool = True  # whether the newest call is part of the conversation
    context_tokens: int = 0  # sent and received by the newest such call
    resumptions: int = 0
    resumptions_without_progress: int = 0
    down_ms: int = 0  # the longest time that it lay still because of a crash
    recovered: bool = False
    client_tools: tuple[ClientTool, ...] = ()
    tool_choice: str = ""  # of the next call, as in RunSettings
    children: dict[str, ChildState] = field(default_factory=dict[str, ChildState])  # by session
    child_asks: dict[str, AskStatus] = field(default_factory=dict[str, AskStatus])
    features: dict[str, Any] = field(default_factory=dict[str, Any])  # the state that each keeps, by its name

    @property
    def refused_actions(self) -> int:
        """Return the number of tool calls that weren't approved."""
        endings = [call.ended.ending for call in self.tools.values() if call.ended is not None]
        return sum(ending in _NOT_ALLOWED for ending in endings)

    @property
    def status(self) -> DetailedStatus:
        """The phase in the words of the API."""
        if self.phase is Phase.RUNNING:
            asks = {ask_kind(ask.asked) for ask in self.open_asks}
            if self.waits_for_children:
                asks |= {ask_kind(ask.asked) for ask in self.open_person_asks}
            if not asks:
                return "running"
            return "waiting_for_client" if asks == {"client_tools"} else "waiting_for_approval"
        return self.phase.value

    @property
    def open_asks(self) -> tuple[AskStatus, ...]:
        """Asks that can still be answered."""
        return tuple(ask for ask in self.asks.values() if ask.state == "open")

    def failures_in_a_row(self, tool: str) -> int:
        """Return how many of the last calls of our tool failed; those that no one allowed don't count."""
        count = 0
        for call in reversed(self.tools.values()):
            if call.own_tool == tool and call.ended is not None:
                if call.ended.ok:
                    break
                count += call.ended.ending not in {"denied", "expired", "no_approver"}
        return count

    @property
    def person_asks(self) -> dict[str, AskStatus]:
        """Return all requests of the run and its sub-agents at all levels."""
        own = {id_: ask for id_, ask in self.asks.items() if not isinstance(ask.asked, e.ClientToolsAsked)}
        return own | self.child_asks

    @property
    def open_person_asks(self) -> tuple[AskStatus, ...]:
        """Those of them that can still be answered."""
        return tuple(ask for ask in self.person_asks.values() if ask.state == "open")

    @property
    def only_waits(self) -> bool:
        """Whether it only waits, for a person, the client, a model or its sub-agents."""
        return self.awaits_model or bool(self.open_asks) or self.waits_for_children

    @property
    def waits_for_children(self) -> bool:
        """Whether a tool call waits for sub-agents."""
        if self.unfinished_tools:
            return any(_only_waits(tool) for tool in self.unfinished_tools)
        # A sub-agent that has its answer still waits for its own sub-agents in the background.
        return self.finish == "stop" and not self.attempt_is_open and bool(self.open_children)

    @property
    def busy_tools(self) -> tuple[CallState, ...]:
        """Tool calls that have started and do more than wait for sub-agents."""
        return tuple(
            tool for tool in self.unfinished_tools if tool.started is not None and not _only_waits(tool)
        )

    @property
    def open_children(self) -> tuple[ChildState, ...]:
        """Sub-agents without an ending."""
        return tuple(child for child in self.children.values() if child.ended is None)

    @property
    def used_by_children(self) -> ChildUsage:
        """Return the usage of ended sub-agents."""
        ended = [child.ended.used for child in self.children.values() if child.ended is not None]
        return ChildUsage(
            input_tokens=sum(used.input_tokens for used in ended),
            output_tokens=sum(used.output_tokens for used in ended),
            turns=sum(used.turns for used in ended),
            cost_usd=sum(used.cost_usd for used in ended),
        )

    def owner_of(self, tool: str) -> ToolOwner:
        """Return the owner of the tool that the model calls now."""
        return "client" if any(one.name == tool for one in self.client_tools) else "holdfast"

    def worked_ms(self, now_ms: int) -> int:
        """How long it has worked: the time since its start, without pauses."""
        return (self.waiting_since_ms or now_ms) - self.started_ms - self.paused_ms

    @property
    def unfinished_tools(self) -> tuple[CallState, ...]:
        """Tool calls without an ending, in the order they were asked for."""
        return tuple(tool for tool in self.tools.values() if tool.ended is None)


def _only_waits(tool: CallState) -> bool:
    return tool.started is not None and tool.own_tool in WAITING_TOOLS


def queued_run(seq: int, event: e.RunQueued) -> Run:
    """The run that `event` creates."""
    return Run(
        run_id=event.run_id,
        message_id=event.message_id,
        api_key=event.key,
        settings=event.settings,
        first_seq=seq,
        last_seq=seq,
        created_ms=event.at_ms,
        updated_ms=event.at_ms,
        last_event=type_of(event),
        client_tools=event.settings.client_tools,
        tool_choice=event.settings.tool_choice,
    )


def apply_to_run(run: Run, seq: int, event: e.Event) -> None:
    """Change the run by one of its events; raises IllegalEvent before anything is changed."""
    kind = type(event)
    phase = TRANSITIONS[run.phase].get(kind)
    step = _STEPS.get(kind)
    try:
        if phase is None:
            raise _Contradiction("no such step from this phase")
        if step is not None:
            step(run, event)
        if kind in _ASKING:
            asked = ask_event(event)
            assert isinstance(asked, e.AskAsked), "its type says so"
            (run.asks if asked is event else run.child_asks)[asked.ask_id].seq = seq
    except _Contradiction as found:
        reason = str(found)
        raise IllegalEvent(reason, event=event, seq=seq, run_id=run.run_id, phase=run.phase) from None
    if run.waiting_since_ms and not run.open_asks:
        run.paused_ms += max(0, event.at_ms - run.waiting_since_ms)
        run.waiting_since_ms = 0
    run.phase = phase
    run.last_seq = seq
    run.updated_ms = event.at_ms
    if kind not in _DELTAS:
        run.last_event = type_of(event)


def _started(run: Run, event: e.RunStarted) -> None:
    run.target = event.target
    run.started_ms = run.taken_up_ms = event.at_ms
    if event.settings is not None:
        run.settings = event.settings


def _call_started(run: Run, event: e.CallStarted) -> None:
    run.call_id = event.call_id
    run.finish = None
    run.attempt_is_open = False
    run.answers = event.purpose == "answer"
    if event.purpose == "answer" and event.turn != run.turn:
        run.turn = event.turn
        run.turns += 1


def _call_ended(run: Run, event: e.CallEnded) -> None:
    run.finish = event.finish
    run.awaits_model = False
    run.attempt_is_open = False
    run.resumptions_without_progress = 0
    if run.answers and event.finish not in {"failed", "redirected"}:
        run.tool_choice = ""


def _attempt_started(run: Run, event: e.AttemptStarted) -> None:
    if event.call_id != run.call_id:
        # The call continues after a summary that it needed, which was another call.
        run.call_id = event.call_id
        run.answers, run.finish = True, None
    run.attempt_id = event.attempt_id
    run.attempt_is_open = True
    run.target = event.target
    run.model = event.model
    run.gate_until_ms = 0
    run.awaits_model = False
    run.attempts[event.attempt_id] = event.target


def _attempt_over(run: Run, event: e.AttemptFailed | e.AttemptSuperseded) -> None:
    if event.attempt_id not in run.attempts:
        raise _Contradiction(f"attempt {event.attempt_id} was never started")
    if event.attempt_id == run.attempt_id:
        run.attempt_is_open = False


def _attempt_failed(run: Run, event: e.AttemptFailed) -> None:
    _attempt_over(run, event)
    if event.attempt_id == run.attempt_id:
        run.awaits_model = event.failure.kind == "connect_failed"


def _superseded(run: Run, event: e.AttemptSuperseded) -> None:
    _attempt_over(run, event)
    run.tools = {
        id_: tool
        for id_, tool in run.tools.items()
        if tool.attempt_id != event.attempt_id or tool.started or tool.ended
    }


def _gated(run: Run, event: e.CallGated) -> None:
    run.gate_until_ms = event.until_ms
    run.awaits_model = True
    run.target = event.target or run.target


def _switched(run: Run, event: e.TargetSwitched) -> None:
    run.target = event.to_target


def _completed_something(run: Run, _: e.TextDone) -> None:
    run.resumptions_without_progress = 0


def _used(run: Run, event: e.Usage) -> None:
    run.usage.add(event)
    run.known_cost_usd += event.cost_usd or 0.0
    if event.estimated:
        return  # such an attempt may have brought nothing
    if run.answers:
        run.context_tokens = event.input_tokens + event.output_tokens
    run.resumptions_without_progress = 0


def _tool_asked(run: Run, event: e.ToolAsked) -> None:
    earlier = run.tools.get(event.tool_call_id)
    if earlier is not None and earlier.ended is None:
        raise _Contradiction(f"tool call {event.tool_call_id} is open already")
    run.tools[event.tool_call_id] = CallState(event, run.attempt_id, event.owner or run.owner_of(event.name))


def _asked_tool(run: Run, event: e.ToolStarted | e.ToolOutput | e.ToolEnded) -> CallState:
    tool = run.tools.get(event.tool_call_id)
    if tool is None:
        raise _Contradiction(f"tool call {event.tool_call_id} was never asked for")
    return tool


def _tool_started(run: Run, event: e.ToolStarted) -> None:
    tool = _asked_tool(run, event)
    if tool.ended is not None:
        raise _Contradiction(f"tool call {event.tool_call_id} has ended")
    if tool.started is not None and tool.started_after_resumptions == run.resumptions:
        raise _Contradiction(f"tool call {event.tool_call_id} was started before")
    tool.started = event
    tool.started_after_resumptions = run.resumptions
    run.attempt_is_open = False


def _tool_output(run: Run, event: e.ToolOutput) -> None:
    _asked_tool(run, event)


def _tool_ended(run: Run, event: e.ToolEnded) -> None:
    tool = _asked_tool(run, event)
    if tool.ended is not None:
        raise _Contradiction(f"tool call {event.tool_call_id} has ended before")
    tool.ended = event
    run.resumptions_without_progress = 0


def _child_started(run: Run, event: e.ChildStarted) -> None:
    if event.child_id in run.children:
        raise _Contradiction(f"sub-agent {event.child_id} was started before")
    run.children[event.child_id] = ChildState(event)


def _child_ended(run: Run, event: e.ChildEnded) -> None:
    child = run.children.get(event.child_id)
    if child is None:
        raise _Contradiction(f"sub-agent {event.child_id} was never started")
    child.ended = child.ended or event  # the first ending counts
    run.resumptions_without_progress = 0
    for ask in run.child_asks.values():
        if ask.child_id == event.child_id and ask.state == "open":
            ask.settle(Settlement("withdrawn", reason="run_ended"))


def _child_asked(run: Run, event: e.ChildAsked) -> None:
    child = run.children.get(event.child_id)
    if child is None:
        raise _Contradiction(f"sub-agent {event.child_id} was never started")
    ask = run.child_asks.setdefault(event.ask.ask_id, AskStatus(event.ask, child_id=event.child_id))
    if child.ended is not None and ask.state == "open":
        ask.settle(Settlement("withdrawn", reason="run_ended"))


def _child_ask_settled(run: Run, event: e.ChildAskSettled) -> None:
    ask = run.child_asks.get(event.settled.ask_id)
    if ask is not None and ask.state == "open":
        ask.settle(settlement(event.settled))


def _ask(run: Run, event: e.AskAsked) -> None:
    if event.ask_id in run.asks:
        raise _Contradiction(f"{event.ask_id} was asked before")
    run.asks[event.ask_id] = AskStatus(event)
    run.waiting_since_ms = run.waiting_since_ms or event.at_ms


def _settle(run: Run, event: e.AskSettled) -> None:
    ask = run.asks.get(event.ask_id)
    if ask is None or ask_kind(ask.asked) != ask_kind(event) or ask.state != "open":
        raise _Contradiction(f"{event.ask_id} is not open")
    ask.settle(settlement(event))
    if isinstance(event, e.ApprovalAnswered):
        ask.steps = event.steps
    if isinstance(event, e.ClientToolsAnswered):
        ask.results, run.tool_choice = event.results, event.tool_choice
        run.client_tools = run.client_tools if event.tools is None else event.tools


def _stop_requested(run: Run, event: e.StopRequested) -> None:
    run.stop_cause = run.stop_cause or event.cause


def _resumed(run: Run, event: e.RunResumed) -> None:
    run.resumptions += 1
    run.taken_up_ms = event.at_ms
    # Neither an orderly restart nor a run that only waits is a suspected crash.
    if event.after != "restart" and not run.only_waits:
        run.resumptions_without_progress += 1
        run.down_ms = max(run.down_ms, event.at_ms - run.updated_ms)
    run.awaits_model = False
    if run.started_ms and not run.waiting_since_ms:
        run.paused_ms += max(0, event.at_ms - run.updated_ms)


def _ended(run: Run, event: e.RunEnded) -> None:
    run.outcome, run.cause, run.failure, run.trace = event.outcome, event.cause, event.failure, event.trace
    run.attempt_is_open = False
    run.gate_until_ms = 0
    for ask in run.open_asks:
        ask.settle(Settlement("withdrawn", reason="run_ended"))


def _recovered(run: Run, _: e.OutputRecovered) -> None:
    run.recovered = True


_STEPS: Mapping[type[e.Event], Callable[[Run, Any], None]] = MappingProxyType(
    {
        e.RunStarted: _started,
        e.CallStarted: _call_started,
        e.CallEnded: _call_ended,
        e.AttemptStarted: _attempt_started,
        e.AttemptFailed: _attempt_failed,
        e.AttemptSuperseded: _superseded,
        e.CallGated: _gated,
        e.TargetSwitched: _switched,
        e.TextDone: _completed_something,
        e.Usage: _used,
        e.ToolAsked: _tool_asked,
        e.ToolStarted: _tool_started,
        e.ToolOutput: _tool_output,
        e.ToolEnded: _tool_ended,
        e.ChildStarted: _child_started,
        e.ChildEnded: _child_ended,
        e.ChildAsked: _child_asked,
        e.ChildAskSettled: _child_ask_settled,
        e.ApprovalAsked: _ask,
        e.QuestionAsked: _ask,
        e.ClientToolsAsked: _ask,
        **dict.fromkeys(SETTLED_STATES, _settle),
        e.StopRequested: _stop_requested,
        e.RunResumed: _resumed,
        e.RunEnded: _ended,
        e.OutputRecovered: _recovered,
        **RUN_STEPS,
    }
)
