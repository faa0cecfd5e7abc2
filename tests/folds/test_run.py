"""One run's fold: which event may follow which, and what a run holds afterwards."""

from typing import get_args

import msgspec
import pytest
from msgspec.structs import replace

from holdfast import events as e
from holdfast.codec import TYPES, encode, type_of
from holdfast.features.automations.events import (
    TriggerDue,
)
from holdfast.features.hooks.events import HookEnded, HookStarted
from holdfast.features.plans.events import GoalContinued, PlanUpdated
from holdfast.features.speech.events import AudioTranscribed
from holdfast.features.undo.events import SnapshotTaken
from holdfast.features.vision.events import ImageDescribed
from holdfast.folds.phases import TRANSITIONS, IllegalEvent, Phase
from holdfast.folds.run import DetailedStatus, Run
from holdfast.folds.session import apply, fold
from holdfast.values import (
    Action,
    Budget,
    CallFinish,
    ChildUsage,
    ClientTool,
    ClientToolResult,
    Failure,
    RunSettings,
    ToolEnding,
)
from strategies.legal_logs import Log

FAILURE = Failure(kind="stalled", text="no events for 60 s after first byte")
ACCEPTED = e.MessageAccepted(at_ms=1, message_id="m1", text="hi")
QUEUED = e.RunQueued(at_ms=2, run_id="r1", message_id="m1")
STARTED = e.RunStarted(at_ms=3, run_id="r1", target="a")
CALL = e.CallStarted(at_ms=4, run_id="r1", call_id="c1", turn=1)
ATTEMPT = e.AttemptStarted(at_ms=5, run_id="r1", call_id="c1", attempt_id="a1", target="b")
FAILED = e.AttemptFailed(
    at_ms=6, run_id="r1", attempt_id="a1", failure=FAILURE, close_reason="stream_idle_kill"
)
SUPERSEDED = e.AttemptSuperseded(at_ms=6, run_id="r1", attempt_id="a1")
TOOL_ASKED = e.ToolAsked(at_ms=7, run_id="r1", tool_call_id="t1", name="shell")
TOOL_STARTED = e.ToolStarted(at_ms=8, run_id="r1", tool_call_id="t1", effect_key="k")
TOOL_OUTPUT = e.ToolOutput(at_ms=8, run_id="r1", tool_call_id="t1", text="out")
TOOL_ENDED = e.ToolEnded(at_ms=9, run_id="r1", tool_call_id="t1", ok=True, result="done")
APPROVAL = e.ApprovalAsked(
    at_ms=7, run_id="r1", approval_id="p1", tool_call_id="t1", action=Action(tool="shell", summary="rm x")
)
ANSWERED = e.ApprovalAnswered(
    at_ms=8, run_id="r1", approval_id="p1", choice="deny", by="ann", reason="not today"
)
APPROVAL_EXPIRED = e.ApprovalExpired(at_ms=8, run_id="r1", approval_id="p1")
APPROVAL_WITHDRAWN = e.ApprovalWithdrawn(at_ms=8, run_id="r1", approval_id="p1", cause="stop")
QUESTION = e.QuestionAsked(at_ms=7, run_id="r1", question_id="q1", tool_call_id="t1", text="which?")
QUESTION_ANSWERED = e.QuestionAnswered(at_ms=8, run_id="r1", question_id="q1", answer="this", by="ann")
QUESTION_EXPIRED = e.QuestionExpired(at_ms=8, run_id="r1", question_id="q1")
QUESTION_WITHDRAWN = e.QuestionWithdrawn(at_ms=8, run_id="r1", question_id="q1", cause="stop")
CLIENT_TOOLS = e.ClientToolsAsked(at_ms=7, run_id="r1", client_tools_id="k1", tool_call_ids=("t1",))
CLIENT_TOOLS_ANSWERED = e.ClientToolsAnswered(
    at_ms=8,
    run_id="r1",
    client_tools_id="k1",
    results=(ClientToolResult(tool_call_id="t1", text="21"),),
    tools=(ClientTool(name="other"),),
    tool_choice="required",
)
CLIENT_TOOLS_EXPIRED = e.ClientToolsExpired(at_ms=8, run_id="r1", client_tools_id="k1")
CLIENT_TOOLS_WITHDRAWN = e.ClientToolsWithdrawn(at_ms=8, run_id="r1", client_tools_id="k1", cause="stop")
USAGE = e.Usage(at_ms=9, run_id="r1", call_id="c1", input_tokens=10, output_tokens=4, cost_usd=0.25)
TEXT = e.TextDelta(at_ms=9, run_id="r1", segment=0, text="hel")
TEXT_DONE = e.TextDone(at_ms=9, run_id="r1", segment=0, text="hello")
STOP = e.StopRequested(at_ms=10, run_id="r1", by="ann")
RESUMED = e.RunResumed(at_ms=11, run_id="r1", after="crash")
ENDED = e.RunEnded(at_ms=12, run_id="r1", outcome="completed")
RECOVERED = e.OutputRecovered(at_ms=13, run_id="r1", events=(msgspec.Raw(encode(TEXT)),))

CHILD_STARTED = e.ChildStarted(
    at_ms=7, run_id="r1", child_id="s1", child_run_id="r2", message_id="m2", tool_call_id="t1", name="agent-1"
)
CHILD_ENDED = e.ChildEnded(
    at_ms=9,
    run_id="r1",
    child_id="s1",
    outcome="completed",
    used=ChildUsage(input_tokens=3, output_tokens=2, turns=1, cost_usd=0.5),
)

RUNNING = (ACCEPTED, QUEUED, STARTED)
CHILD_ASKED = e.ChildAsked(
    at_ms=7, run_id="r1", child_id="s1", ask=msgspec.structs.replace(APPROVAL, run_id="r2", approval_id="p9")
)
CHILD_ASK_SETTLED = e.ChildAskSettled(
    at_ms=8,
    run_id="r1",
    child_id="s1",
    settled=msgspec.structs.replace(ANSWERED, run_id="r2", approval_id="p9"),
)
BUSY = (*RUNNING, CALL, ATTEMPT, TOOL_ASKED, CHILD_STARTED, APPROVAL, QUESTION, CLIENT_TOOLS)


def log_of(*events: e.Event) -> Log:
    return list(enumerate(events, start=1))


def run_of(*events: e.Event) -> Run:
    return fold(log_of(*events)).runs["r1"]


CALL_ENDED = e.CallEnded(at_ms=9, run_id="r1", call_id="c1", finish="stop")
IN_PHASE: dict[Phase, tuple[e.Event, ...]] = {
    Phase.QUEUED: (ACCEPTED, QUEUED),
    Phase.RUNNING: BUSY,
    Phase.STOPPING: (*BUSY, STOP),
    Phase.ENDED: (*BUSY, ENDED),
}
NEXT: tuple[e.Event, ...] = (
    CALL_ENDED,
    *(e.MessageDispatched(at_ms=9, run_id="r1", message_id="m1"), STARTED, CALL, ATTEMPT, FAILED, SUPERSEDED),
    *(TEXT, TEXT_DONE, e.ReasoningDelta(at_ms=9, run_id="r1", segment=0, text="")),
    *(
        e.ReasoningDone(at_ms=9, run_id="r1", segment=0, text=""),
        e.ToolAsked(at_ms=9, run_id="r1", tool_call_id="t2", name=""),
    ),
    *(
        TOOL_STARTED,
        TOOL_OUTPUT,
        TOOL_ENDED,
        e.CallGated(at_ms=9, run_id="r1", call_id="c1", until_ms=99, target="b"),
    ),
    *(
        APPROVAL_EXPIRED,
        APPROVAL_WITHDRAWN,
        ANSWERED,
        QUESTION_ANSWERED,
        QUESTION_EXPIRED,
        QUESTION_WITHDRAWN,
        CLIENT_TOOLS_ANSWERED,
        CLIENT_TOOLS_EXPIRED,
        CLIENT_TOOLS_WITHDRAWN,
    ),
    msgspec.structs.replace(APPROVAL, approval_id="p2"),
    msgspec.structs.replace(QUESTION, question_id="q2"),
    msgspec.structs.replace(CLIENT_TOOLS, client_tools_id="k2"),
    e.TargetSwitched(at_ms=9, run_id="r1", from_target="b", to_target="c", why="b was slow"),
    e.ContextCompacted(at_ms=9, run_id="r1", upto_seq=1, summary=""),
    e.ContextTrimmed(at_ms=9, run_id="r1", results=()),
    e.ContextCompactionFailed(at_ms=9, run_id="r1", failure="no"),
    SnapshotTaken(at_ms=9, run_id="r1", turn=1, when="before", workspace="/w", snapshot="5a"),
    e.AttachmentsSaved(at_ms=9, run_id="r1", files=()),
    PlanUpdated(at_ms=9, run_id="r1", tool_call_id="t1", steps=()),
    GoalContinued(at_ms=9, run_id="r1", round=2, told=""),
    HookStarted(at_ms=9, run_id="r1", hook_call_id="h1", hook="lint", on="run_end"),
    HookEnded(at_ms=9, run_id="r1", hook_call_id="h1", hook="lint", outcome="finished"),
    AudioTranscribed(at_ms=9, run_id="r1", blob="b1", name="a.ogg"),
    ImageDescribed(at_ms=9, run_id="r1", blob="b1", name="a.png"),
    msgspec.structs.replace(CHILD_STARTED, child_id="s2"),
    *(CHILD_ASKED, CHILD_ASK_SETTLED, CHILD_ENDED, USAGE, STOP, RESUMED, ENDED, RECOVERED),
    e.ContextRead(at_ms=9, run_id="r1", sources=()),
    e.ContextSet(at_ms=9, run_id="r1", reason="first"),
    e.ContextNoted(at_ms=9, run_id="r1", text="a note"),
)
LEGAL: dict[Phase, set[str]] = {
    Phase.QUEUED: {"message.dispatched", "run.started", "stop.requested", "run.ended", "run.resumed"},
    Phase.RUNNING: {type_of(event) for event in NEXT} - {"run.started", "output.recovered"},
    Phase.STOPPING: {type_of(event) for event in NEXT} - {"output.recovered"},
    Phase.ENDED: {"output.recovered", "child.ended", "child.asked", "child.ask_settled"},
}
EXPECTED_PHASE = {
    "run.started": Phase.RUNNING,
    "stop.requested": Phase.STOPPING,
    "run.ended": Phase.ENDED,
}


def test_the_table_of_next_events_holds_every_event_of_a_run() -> None:
    of_a_run = {kind for kind in TYPES.values() if "run_id" in kind.__struct_fields__}
    # What a trigger is about to ask is in a log of its own.
    assert {type(event) for event in NEXT} == of_a_run - {e.MessageAccepted, e.RunQueued, TriggerDue}
    assert {kind for row in TRANSITIONS.values() for kind in row} == {type(event) for event in NEXT}


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("event", NEXT, ids=type_of)
def test_each_event_leads_where_the_table_says_or_is_illegal(phase: Phase, event: e.Event) -> None:
    session = fold(log_of(*IN_PHASE[phase]))
    seq = session.last_seq + 1
    assert session.runs["r1"].phase is phase
    if type_of(event) in LEGAL[phase]:
        apply(session, seq, event)
        started_too_late = phase is Phase.STOPPING and type_of(event) == "run.started"
        expected = phase if started_too_late else EXPECTED_PHASE.get(type_of(event), phase)
        assert session.runs["r1"].phase is expected
        return
    with pytest.raises(IllegalEvent) as caught:
        apply(session, seq, event)
    where = f"seq {seq}: {type_of(event)} of run r1 (phase {phase}) is illegal: no such step from this phase"
    assert str(caught.value) == where
    assert (caught.value.run_id, caught.value.phase) == ("r1", phase)


def unknown_tool(event: e.ToolStarted | e.ToolOutput | e.ToolEnded) -> e.Event:
    return msgspec.structs.replace(event, tool_call_id="t9")


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ((unknown_tool(TOOL_STARTED),), "tool call t9 was never asked for"),
        ((unknown_tool(TOOL_OUTPUT),), "tool call t9 was never asked for"),
        ((unknown_tool(TOOL_ENDED),), "tool call t9 was never asked for"),
        ((TOOL_ASKED,), "tool call t1 is open already"),
        ((TOOL_STARTED, TOOL_STARTED), "tool call t1 was started before"),
        ((TOOL_STARTED, RESUMED, TOOL_STARTED, TOOL_STARTED), "tool call t1 was started before"),
        ((TOOL_STARTED, TOOL_ENDED, RESUMED, TOOL_STARTED), "tool call t1 has ended"),
        ((TOOL_ENDED, TOOL_ENDED), "tool call t1 has ended before"),
        ((CHILD_STARTED,), "sub-agent s1 was started before"),
        ((msgspec.structs.replace(CHILD_ENDED, child_id="s9"),), "sub-agent s9 was never started"),
        ((msgspec.structs.replace(CHILD_ASKED, child_id="s9"),), "sub-agent s9 was never started"),
        ((SUPERSEDED, TOOL_STARTED), "tool call t1 was never asked for"),
        ((msgspec.structs.replace(FAILED, attempt_id="a9"),), "attempt a9 was never started"),
        ((msgspec.structs.replace(SUPERSEDED, attempt_id="a9"),), "attempt a9 was never started"),
        ((APPROVAL,), "p1 was asked before"),
        ((QUESTION,), "q1 was asked before"),
        ((ANSWERED, ANSWERED), "p1 is not open"),
        ((APPROVAL_EXPIRED, ANSWERED), "p1 is not open"),
        ((APPROVAL_WITHDRAWN, APPROVAL_EXPIRED), "p1 is not open"),
        ((ANSWERED, APPROVAL_WITHDRAWN), "p1 is not open"),
        ((QUESTION_ANSWERED, QUESTION_EXPIRED), "q1 is not open"),
        ((QUESTION_EXPIRED, QUESTION_WITHDRAWN), "q1 is not open"),
        ((QUESTION_WITHDRAWN, QUESTION_ANSWERED), "q1 is not open"),
        ((msgspec.structs.replace(ANSWERED, approval_id="p9"),), "p9 is not open"),
        ((msgspec.structs.replace(ANSWERED, approval_id="q1"),), "q1 is not open"),
        ((msgspec.structs.replace(QUESTION_ANSWERED, question_id="p1"),), "p1 is not open"),
    ],
)
def test_an_event_that_contradicts_the_run_is_illegal(events: tuple[e.Event, ...], reason: str) -> None:
    session = fold(log_of(*BUSY, *events[:-1]))
    with pytest.raises(IllegalEvent) as caught:
        apply(session, session.last_seq + 1, events[-1])
    assert caught.value.reason == reason
    assert str(caught.value).startswith(
        f"seq {session.last_seq + 1}: {type_of(events[-1])} of run r1 (phase running)"
    )


def test_a_run_keeps_what_it_was_queued_with() -> None:
    settings = RunSettings(model="m", budget=Budget(turns=3))
    run = run_of(ACCEPTED, e.RunQueued(at_ms=2, run_id="r1", message_id="m1", settings=settings))
    assert (run.settings, run.message_id) == (settings, "m1")
    assert (run.status, run.first_seq, run.created_ms, run.last_event) == ("queued", 2, 2, "run.queued")


def test_a_run_knows_its_call_turn_attempt_and_target() -> None:
    assert run_of(*RUNNING).target == "a"
    run = run_of(*RUNNING, CALL, ATTEMPT)
    assert (run.call_id, run.turn, run.attempt_id, run.attempt_is_open) == ("c1", 1, "a1", True)
    assert (run.target, run.attempts) == ("b", {"a1": "b"})
    switched = e.TargetSwitched(at_ms=9, run_id="r1", from_target="b", to_target="c", why="b was slow")
    assert run_of(*RUNNING, CALL, ATTEMPT, switched).target == "c"


def test_turns_are_counted_once_however_often_a_turn_is_called() -> None:
    again = msgspec.structs.replace(CALL, call_id="c2")
    title = msgspec.structs.replace(CALL, call_id="c3", turn=2, purpose="title")
    second = msgspec.structs.replace(CALL, call_id="c4", turn=2)
    run = run_of(*RUNNING, CALL, ATTEMPT, RESUMED, again, title, second)
    assert (run.turns, run.turn, run.attempt_is_open) == (2, 2, False)


@pytest.mark.parametrize("event", [FAILED, SUPERSEDED, CALL_ENDED, ENDED])
def test_an_attempt_is_open_until_something_ends_it(event: e.Event) -> None:
    assert run_of(*RUNNING, CALL, ATTEMPT, event).attempt_is_open is False


def test_a_tool_that_starts_shows_that_the_answer_was_complete() -> None:
    assert run_of(*RUNNING, CALL, ATTEMPT, TOOL_ASKED, TOOL_STARTED).attempt_is_open is False


def test_the_end_of_an_older_attempt_leaves_the_open_one_open() -> None:
    second = msgspec.structs.replace(ATTEMPT, attempt_id="a2")
    run = run_of(*RUNNING, CALL, ATTEMPT, second, FAILED, SUPERSEDED)
    assert (run.attempt_id, run.attempt_is_open) == ("a2", True)


def test_superseding_takes_back_tools_that_were_not_started() -> None:
    started = msgspec.structs.replace(TOOL_ASKED, tool_call_id="t0")
    denied = msgspec.structs.replace(TOOL_ASKED, tool_call_id="t3")
    events = (
        *(*RUNNING, CALL, ATTEMPT, started, denied, TOOL_ASKED),
        msgspec.structs.replace(TOOL_STARTED, tool_call_id="t0"),
        msgspec.structs.replace(TOOL_ENDED, tool_call_id="t3", ending="denied"),
        msgspec.structs.replace(ATTEMPT, attempt_id="a2"),
        msgspec.structs.replace(TOOL_ASKED, tool_call_id="t2"),
        SUPERSEDED,
    )
    assert list(run_of(*events).tools) == ["t0", "t3", "t2"]
    assert run_of(*events).refused_actions == 1


def test_a_tool_goes_from_asked_to_started_to_ended() -> None:
    run = run_of(*RUNNING, TOOL_ASKED)
    assert [tool.asked for tool in run.unfinished_tools] == [TOOL_ASKED]
    run = run_of(*RUNNING, TOOL_ASKED, TOOL_STARTED, TOOL_OUTPUT, TOOL_ENDED)
    tool = run.tools["t1"]
    assert (tool.started, tool.ended, run.unfinished_tools) == (TOOL_STARTED, TOOL_ENDED, ())


def test_a_call_belongs_to_its_owner_and_without_one_to_whoever_has_the_name() -> None:
    """P8: a tool of the client with the name of ours is never taken for ours."""
    settings = RunSettings(client_tools=(ClientTool(name="yours"),))
    queued = [replace(one, settings=settings) if isinstance(one, e.RunQueued) else one for one in RUNNING]
    for name, owner, own_tool in (
        ("yours", None, ""),
        ("shell", None, "shell"),
        ("shell", "client", ""),
        ("yours", "holdfast", "yours"),
    ):
        call = run_of(*queued, replace(TOOL_ASKED, name=name, owner=owner)).tools["t1"]
        assert (call.own_tool, call.owner) == (own_tool, "holdfast" if own_tool else "client")


def test_failures_in_a_row_are_counted_by_tool_and_without_denials() -> None:
    def call(number: int, name: str, *, ok: bool, ending: ToolEnding = "finished") -> tuple[e.Event, ...]:
        id_ = f"t{number}"
        return (
            replace(TOOL_ASKED, tool_call_id=id_, name=name),
            replace(TOOL_ENDED, tool_call_id=id_, ok=ok, ending=ending),
        )

    run = run_of(
        *RUNNING,
        *call(1, "shell", ok=False),
        *call(2, "shell", ok=True),
        *call(3, "shell", ok=False),
        *call(4, "other", ok=True),
        *call(5, "shell", ok=False, ending="denied"),
        *call(6, "shell", ok=False, ending="not_started"),
        replace(TOOL_ASKED, tool_call_id="t7"),
    )
    assert [run.failures_in_a_row(name) for name in ("shell", "other", "none")] == [2, 0, 0]


def test_a_tool_may_start_again_after_a_crash() -> None:
    run = run_of(*RUNNING, TOOL_ASKED, TOOL_STARTED, RESUMED, TOOL_STARTED, TOOL_ENDED)
    assert run.tools["t1"].ended == TOOL_ENDED


def test_an_id_may_name_a_new_call_once_the_old_one_has_ended() -> None:
    run = run_of(*RUNNING, TOOL_ASKED, TOOL_ENDED, TOOL_ASKED)
    assert run.tools["t1"].ended is None


def test_an_open_ask_is_what_a_run_waits_for() -> None:
    assert run_of(*RUNNING, TOOL_ASKED, APPROVAL).status == "waiting_for_approval"
    run = run_of(*RUNNING, TOOL_ASKED, APPROVAL, ANSWERED)
    ask = run.asks["p1"]
    assert (run.status, run.open_asks) == ("running", ())
    assert (ask.state, ask.answer, ask.by, ask.reason) == ("answered", "deny", "ann", "not today")
    assert run_of(*RUNNING, QUESTION).status == "waiting_for_approval"
    ask = run_of(*RUNNING, QUESTION, QUESTION_ANSWERED).asks["q1"]
    assert (ask.state, ask.answer, ask.by) == ("answered", "this", "ann")
    assert run_of(*RUNNING, QUESTION, STOP).status == "stopping"


@pytest.mark.parametrize(
    ("event", "ask_id", "state", "reason"),
    [
        (APPROVAL_EXPIRED, "p1", "expired", ""),
        (APPROVAL_WITHDRAWN, "p1", "withdrawn", "stop"),
        (QUESTION_EXPIRED, "q1", "expired", ""),
        (QUESTION_WITHDRAWN, "q1", "withdrawn", "stop"),
        (ENDED, "q1", "withdrawn", "run_ended"),
    ],
)
def test_an_ask_closes_without_an_answer(event: e.Event, ask_id: str, state: str, reason: str) -> None:
    ask = run_of(*BUSY, event).asks[ask_id]
    assert (ask.state, ask.reason, ask.answer) == (state, reason, "")


def test_usage_is_summed_and_an_unknown_cost_makes_the_sum_unknown() -> None:
    tally = run_of(*RUNNING, USAGE, USAGE).usage
    assert (tally.input_tokens, tally.output_tokens, tally.cost_usd) == (20, 8, 0.5)
    unknown = msgspec.structs.replace(
        USAGE, cost_usd=None, cached_tokens=3, reasoning_tokens=2, cache_write_tokens=1
    )
    tally = run_of(*RUNNING, unknown, USAGE).usage
    assert (tally.cached_tokens, tally.reasoning_tokens, tally.cache_write_tokens) == (3, 2, 1)
    assert tally.cost_usd is None


def test_a_gate_holds_until_the_next_attempt_or_the_end() -> None:
    gated = e.CallGated(at_ms=5, run_id="r1", call_id="c1", until_ms=99_000, target="b")
    assert run_of(*RUNNING, CALL, gated).gate_until_ms == 99_000
    assert run_of(*RUNNING, CALL, gated, ATTEMPT).gate_until_ms == 0
    assert run_of(*RUNNING, CALL, gated, ENDED).gate_until_ms == 0
    assert run_of(*RUNNING, CALL, ATTEMPT, gated).target == "b"
    unnamed = msgspec.structs.replace(gated, target="")
    assert run_of(*RUNNING, CALL, ATTEMPT, unnamed).target == ATTEMPT.target != ""


def test_the_time_at_work_leaves_out_waiting_for_people_and_the_time_that_nobody_carried_it_out() -> None:
    def at(ms: int, *events: e.Event) -> tuple[e.Event, ...]:
        return tuple(msgspec.structs.replace(event, at_ms=ms) for event in events)

    asked = (ACCEPTED, QUEUED, *at(100, STARTED), *at(150, TOOL_ASKED), *at(200, APPROVAL))
    assert run_of(*asked).worked_ms(900) == 100
    both = (*asked, *at(300, QUESTION), *at(700, ANSWERED))
    assert run_of(*both).worked_ms(900) == 100
    settled = (*both, *at(800, QUESTION_EXPIRED))
    assert run_of(*settled).worked_ms(900) == 200
    assert run_of(*settled, *at(5_000, RESUMED)).worked_ms(5_010) == 110
    assert run_of(*both, *at(5_000, RESUMED), *at(6_000, QUESTION_ANSWERED)).worked_ms(6_001) == 101
    assert run_of(ACCEPTED, QUEUED, *at(90, RESUMED), *at(100, STARTED)).worked_ms(104) == 4


@pytest.mark.parametrize("progress", [TEXT_DONE, USAGE, TOOL_ENDED])
def test_resumptions_are_counted_until_something_is_completed(progress: e.Event) -> None:
    run = run_of(*RUNNING, TOOL_ASKED, RESUMED, TEXT, RESUMED)
    assert (run.resumptions, run.resumptions_without_progress) == (2, 2)
    run = run_of(*RUNNING, TOOL_ASKED, RESUMED, progress, RESUMED)
    assert (run.resumptions, run.resumptions_without_progress) == (2, 1)


def test_an_estimate_counts_as_usage_but_not_as_progress() -> None:
    estimate = msgspec.structs.replace(USAGE, estimated=True)
    run = run_of(*RUNNING, TOOL_ASKED, RESUMED, estimate, RESUMED)
    assert (run.usage.input_tokens, run.resumptions_without_progress, run.context_tokens) == (10, 2, 0)


def test_a_run_that_only_waits_for_a_model_is_suspected_of_no_crash() -> None:
    away = msgspec.structs.replace(FAILED, failure=Failure(kind="connect_failed", text=""))
    gated = e.CallGated(at_ms=5, run_id="r1", call_id="c1", until_ms=99_000, target="b")
    for waits in ((CALL, ATTEMPT, away), (CALL, gated)):
        assert run_of(*RUNNING, *waits).only_waits
        run = run_of(*RUNNING, *waits, RESUMED, *waits, RESUMED)
        assert (run.resumptions, run.resumptions_without_progress) == (2, 0)
        assert run_of(*RUNNING, *waits, RESUMED, RESUMED).resumptions_without_progress == 1, "it did not wait"
        run = run_of(*RUNNING, *waits, ATTEMPT, RESUMED)
        assert run.resumptions_without_progress == 1, "it had gone on"
    assert not run_of(*RUNNING, CALL, ATTEMPT, FAILED).only_waits
    beside = msgspec.structs.replace(ATTEMPT, attempt_id="a2")
    assert not run_of(*RUNNING, CALL, ATTEMPT, beside, away).only_waits, "another attempt goes on"


def test_the_first_cause_of_a_stop_counts() -> None:
    run = run_of(*RUNNING, STOP, msgspec.structs.replace(STOP, cause="shutdown"))
    assert (run.status, run.stop_cause) == ("stopping", "user_stop")


def test_deltas_move_the_run_but_are_not_its_last_event() -> None:
    run = run_of(*RUNNING, TEXT)
    assert (run.last_event, run.last_seq, run.updated_ms) == ("run.started", 4, 9)


def test_an_ending_says_all_that_is_known() -> None:
    ending = e.RunEnded(at_ms=9, run_id="r1", outcome="failed", cause="x", failure=FAILURE, trace=("1", "2"))
    run = run_of(*RUNNING, ending)
    assert (run.status, run.outcome, run.cause) == ("ended", "failed", "x")
    assert (run.failure, run.trace) == (FAILURE, ("1", "2"))


def test_recovered_output_is_noted_and_changes_nothing_else() -> None:
    assert run_of(*RUNNING, ENDED).recovered is False
    run = run_of(*RUNNING, ENDED, RECOVERED)
    assert (run.recovered, run.status, run.outcome) == (True, "ended", "completed")


def test_every_status_that_the_api_names_is_reached() -> None:
    waits = (*RUNNING, CALL, ATTEMPT, TOOL_ASKED, CLIENT_TOOLS)
    runs = [run_of(*events) for events in (*IN_PHASE.values(), RUNNING, waits)]
    assert {run.status for run in runs} == set(get_args(DetailedStatus))


def test_a_run_waits_for_its_client_until_the_results_come() -> None:
    """P6: what is open is in the log; a person's answer is waited for first."""
    waits = (*RUNNING, CALL, ATTEMPT, TOOL_ASKED, CLIENT_TOOLS)
    assert run_of(*waits).status == "waiting_for_client"
    assert run_of(*waits, QUESTION).status == "waiting_for_approval"
    run = run_of(*waits, CLIENT_TOOLS_ANSWERED)
    assert (run.status, run.tool_choice, [tool.name for tool in run.client_tools]) == (
        "running",
        "required",
        ["other"],
    )
    assert [result.text for result in run.asks["k1"].results] == ["21"]
    assert run_of(*waits, CLIENT_TOOLS_ANSWERED, CALL, CALL_ENDED).tool_choice == ""
    assert run_of(*waits, CLIENT_TOOLS_EXPIRED).status == "running"


def test_a_run_knows_its_open_sub_agents_and_what_the_others_used() -> None:
    run = run_of(*BUSY)
    assert [child.started.name for child in run.open_children] == ["agent-1"]
    assert run.used_by_children == ChildUsage()
    run = run_of(*BUSY, CHILD_ENDED, msgspec.structs.replace(CHILD_ENDED, outcome="failed"))
    assert not run.open_children
    assert run.used_by_children == CHILD_ENDED.used
    assert run.children["s1"].ended == CHILD_ENDED  # the first ending counts


def test_a_call_that_waits_for_sub_agents_is_not_at_work() -> None:
    delegate = msgspec.structs.replace(TOOL_ASKED, name="delegate")
    begun = (*RUNNING, CALL, ATTEMPT, delegate)
    assert not run_of(*begun).waits_for_children
    waiting = run_of(*begun, TOOL_STARTED)
    assert waiting.waits_for_children
    assert waiting.only_waits
    assert not waiting.busy_tools
    other = e.ToolAsked(at_ms=7, run_id="r1", tool_call_id="t2", name="shell")
    busy = run_of(*begun, other, TOOL_STARTED, msgspec.structs.replace(TOOL_STARTED, tool_call_id="t2"))
    assert [tool.asked.name for tool in busy.busy_tools] == ["shell"]


def test_a_run_that_has_its_answer_waits_for_sub_agents_in_the_background() -> None:
    said = (*RUNNING, CALL, ATTEMPT, CHILD_STARTED, FAILED, CALL_ENDED)
    assert run_of(*said).waits_for_children
    assert not run_of(*said, CHILD_ENDED).waits_for_children


def test_what_sub_agents_ask_is_open_until_it_is_settled_or_they_end() -> None:
    """P8: it is told apart from what the run itself asks, which its owner settles."""
    begun = (*RUNNING, CALL, ATTEMPT, TOOL_ASKED, CHILD_STARTED)
    asking = run_of(*begun, CHILD_ASKED)
    assert not asking.open_asks
    assert [ask.asked.ask_id for ask in asking.open_person_asks] == ["p9"]
    assert asking.person_asks["p9"].seq == asking.last_seq
    assert asking.status == "running"  # it does something else meanwhile
    waiting = e.ToolAsked(at_ms=6, run_id="r1", tool_call_id="t8", name="delegate", args={})
    started = e.ToolStarted(at_ms=6, run_id="r1", tool_call_id="t8", effect_key="k")
    assert run_of(*RUNNING, CALL, ATTEMPT, waiting, started, CHILD_STARTED, CHILD_ASKED).status == (
        "waiting_for_approval"
    )
    assert run_of(*begun, CHILD_ASKED, CHILD_ASK_SETTLED).person_asks["p9"].state == "answered"
    assert run_of(*begun, CHILD_ASKED, CHILD_ENDED).person_asks["p9"].state == "withdrawn"
    assert run_of(*begun, CHILD_ENDED, CHILD_ASKED).person_asks["p9"].state == "withdrawn"
    assert not run_of(*begun, CHILD_ASK_SETTLED).person_asks


@pytest.mark.parametrize(("finish", "left"), [("failed", "required"), ("tools", "")])
def test_what_tool_must_be_called_holds_until_a_call_has_answered(finish: CallFinish, left: str) -> None:
    queued = replace(QUEUED, settings=RunSettings(tool_choice="required"))
    ended = e.CallEnded(at_ms=6, run_id="r1", call_id="c1", finish=finish)
    session = fold(list(enumerate((ACCEPTED, queued, STARTED, CALL, ended), 1)))
    assert session.runs["r1"].tool_choice == left


def test_a_call_continues_after_the_summary_that_it_needed() -> None:
    """The summary is a call of its own; the next attempt belongs to the answer again."""
    summary = e.CallStarted(at_ms=6, run_id="r1", call_id="c2", turn=1, purpose="compaction")
    summarized = e.AttemptStarted(at_ms=7, run_id="r1", call_id="c2", attempt_id="a2", target="b")
    ended = e.CallEnded(at_ms=8, run_id="r1", call_id="c2", finish="stop")
    again = e.AttemptStarted(at_ms=9, run_id="r1", call_id="c1", attempt_id="a3", target="b")
    before = [ACCEPTED, QUEUED, STARTED, CALL, ATTEMPT, FAILED, summary, summarized, ended]
    run = fold(enumerate(before, 1)).runs["r1"]
    assert (run.call_id, run.answers) == ("c2", False)
    run = fold(enumerate([*before, again], 1)).runs["r1"]
    assert (run.call_id, run.answers, run.finish) == ("c1", True, None)
