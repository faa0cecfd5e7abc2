"""The session's fold: laws over any legal log, messages and their states, the session's own facts."""

from contextlib import suppress
from copy import deepcopy

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from msgspec.structs import replace

from holdfast import events as e
from holdfast.codec import TYPES
from holdfast.events.modes import mode_of, mode_set
from holdfast.folds.inputs import MessageState
from holdfast.folds.phases import IllegalEvent
from holdfast.folds.run import apply_to_run, queued_run
from holdfast.folds.session import Session, apply, chat_of, fold
from holdfast.values import MODES, ApprovalMode, GrantRule, Mode, RunSettings, TextPart
from strategies.legal_logs import BOUNDED, Log, logs


def log_of(*events: e.Event) -> Log:
    return list(enumerate(events, start=1))


def said(message_id: str, *, mode: Mode = "send", run_id: str = "", text: str = "") -> e.MessageAccepted:
    return e.MessageAccepted(
        at_ms=1, message_id=message_id, text=text or message_id, mode=mode, run_id=run_id
    )


def queued(run_id: str, message_id: str) -> e.RunQueued:
    return e.RunQueued(at_ms=2, run_id=run_id, message_id=message_id)


def started(run_id: str) -> e.RunStarted:
    return e.RunStarted(at_ms=3, run_id=run_id)


def ended(run_id: str) -> e.RunEnded:
    return e.RunEnded(at_ms=9, run_id=run_id, outcome="completed")


RUNNING = (said("m1"), queued("r1", "m1"), started("r1"))


# Events of logs that are no conversations.
NO_CONVERSATIONS = frozenset(
    {"holdfast.features.channels.events", "holdfast.features.sign_ins.events", "holdfast.events.deliveries"}
)


def test_the_generator_of_logs_leaves_no_event_type_out() -> None:
    missing = {kind for kind in TYPES.values() if kind.__module__ not in NO_CONVERSATIONS}

    def nothing_is_missing(log: Log) -> bool:
        kinds = {type(event) for _, event in log}
        assert all(kind.__module__ not in NO_CONVERSATIONS for kind in kinds)
        missing.difference_update(kinds)
        return not missing

    # `find` stops at the log that completes the set.
    once = settings(derandomize=True, database=None, max_examples=3_000, phases=[Phase.generate])
    with suppress(NoSuchExample):
        find(logs(moves_max=200), nothing_is_missing, settings=once)
    assert not missing


@BOUNDED
@given(logs())
def test_any_legal_log_folds_and_so_does_every_prefix(log: Log) -> None:
    session = Session()
    for seq, event in log:
        assert apply(session, seq, event) is session
        assert session.last_seq == seq
    assert session == fold(log)


@BOUNDED
@given(logs(), st.data())
def test_what_was_seen_before_changes_nothing(log: Log, data: st.DataObject) -> None:
    session = fold(log)
    start = data.draw(st.integers(0, len(log)))
    stop = data.draw(st.integers(start, len(log)))
    before = deepcopy(session)
    for seq, event in log[start:stop]:
        apply(session, seq, event)
    assert session == before
    middle = fold(log[:stop])
    for seq, event in log[start:]:
        apply(middle, seq, event)
    assert middle == before


@BOUNDED
@given(logs())
def test_every_run_has_at_most_one_ending_and_every_message_one_place(log: Log) -> None:
    session = fold(log)
    for run in session.runs.values():
        endings = [event for _, event in log if isinstance(event, e.RunEnded) and event.run_id == run.run_id]
        assert len(endings) == (run.status == "ended") == (run.outcome is not None)
        assert run.first_seq <= run.last_seq <= session.last_seq
        assert not (run.status == "ended" and run.open_asks)
    inbox = session.inbox
    assert len(set(inbox.queue)) == len(inbox.queue)
    for message in inbox.messages.values():
        assert (message.state is MessageState.QUEUED) == (message.message_id in inbox.queue)
        assert (message.state is MessageState.STEERING) == (message.message_id in inbox.steering)
        assert (inbox.position(message.message_id) > 0) == (message.state is MessageState.QUEUED)
    assert len(session.open_runs) >= (session.current_run is not None)


@BOUNDED
@given(logs(), st.data())
def test_an_illegal_event_changes_nothing(log: Log, data: st.DataObject) -> None:
    session = fold(log)
    before = deepcopy(session)
    _, event = data.draw(st.sampled_from(log))
    illegal: IllegalEvent | None = None
    try:
        apply(session, session.last_seq + 1, event)
    except IllegalEvent as raised:
        illegal = raised
    if illegal is not None:
        assert session == before
        assert (illegal.seq, illegal.event) == (before.last_seq + 1, event)


def test_a_session_starts_as_it_was_created() -> None:
    created = e.SessionCreated(at_ms=5, epoch="e1", source="page", title="Plans", workspace="/w")
    session = fold(log_of(created, e.SessionRenamed(at_ms=6, title="Better plans")))
    assert (session.epoch, session.source, session.workspace) == ("e1", "page", "/w")
    assert (session.title, session.created_ms, session.updated_ms) == ("Better plans", 5, 6)
    assert session.current_run is None


@pytest.mark.parametrize(
    ("there", "back", "field"),
    [
        (e.SessionPinned(at_ms=1), e.SessionUnpinned(at_ms=2), "pinned"),
        (e.SessionArchived(at_ms=1), e.SessionUnarchived(at_ms=2), "archived"),
        (e.QueuePaused(at_ms=1), e.QueueResumed(at_ms=2), "queue_paused"),
    ],
)
def test_what_is_switched_on_can_be_switched_off(there: e.Event, back: e.Event, field: str) -> None:
    assert getattr(fold(log_of(there)), field) is True
    assert getattr(fold(log_of(there, back)), field) is False


def test_a_deletion_names_its_purge_and_can_be_taken_back() -> None:
    deleted = e.SessionDeleted(at_ms=1, purge_at_ms=61_000)
    assert fold(log_of(deleted)).purge_at_ms == 61_000
    assert fold(log_of(deleted, e.SessionRestored(at_ms=2))).purge_at_ms is None


def test_a_fork_knows_where_it_came_from() -> None:
    session = fold(log_of(e.SessionForked(at_ms=1, source_session_id="s0", at_seq=41)))
    assert session.forked_from == ("s0", 41)


def test_grants_hold_until_they_are_removed() -> None:
    grant = e.GrantAdded(at_ms=1, grant_id="g1", rule=GrantRule(tool="shell"), scope="session")
    assert fold(log_of(grant)).grants == {"g1": grant}
    gone = e.GrantRemoved(at_ms=2, grant_id="g1")
    assert fold(log_of(grant, gone, gone)).grants == {}


def test_a_rewind_leaves_runs_as_they_were() -> None:
    session = fold(log_of(*RUNNING, ended("r1"), e.SessionRewound(at_ms=10, to_seq=0)))
    assert session.runs["r1"].outcome == "completed"
    assert session.inbox.messages["m1"].state is MessageState.DISPATCHED


def test_one_run_has_the_slot_and_the_others_wait_in_the_order_of_the_queue() -> None:
    session = fold(log_of(*RUNNING, said("m2"), queued("r2", "m2"), said("m3"), queued("r3", "m3")))
    assert session.current_run is session.runs["r1"]
    assert [run.status for run in session.runs.values()] == ["running", "queued", "queued"]
    assert [session.inbox.position(id_) for id_ in ("m1", "m2", "m3")] == [0, 1, 2]


def test_usage_is_summed_over_runs() -> None:
    used = e.Usage(at_ms=4, run_id="r1", call_id="c", input_tokens=5, output_tokens=2, cost_usd=0.5)
    other = e.Usage(at_ms=4, run_id="r2", call_id="c", input_tokens=1)
    first = (*RUNNING, used, ended("r1"))
    assert fold(log_of(*first)).usage.cost_usd == 0.5
    session = fold(log_of(*first, said("m2"), queued("r2", "m2"), started("r2"), other))
    assert (session.usage.input_tokens, session.usage.output_tokens) == (6, 2)
    assert session.usage.cost_usd is None


def test_the_same_message_twice_has_one_effect() -> None:
    session = fold(log_of(said("m1", text="first"), said("m1", text="second")))
    assert session.inbox.messages["m1"].text == "first"
    assert session.inbox.queue == ["m1"]


@pytest.mark.parametrize(
    ("position", "order"),
    [
        (0, ["m3", "m1", "m2"]),
        (1, ["m1", "m3", "m2"]),
        (99, ["m1", "m2", "m3"]),
        (2**70, ["m1", "m2", "m3"]),
        (-1, ["m3", "m1", "m2"]),
    ],
)
def test_a_waiting_message_can_be_moved(position: int, order: list[str]) -> None:
    moved = e.MessageMoved(at_ms=4, message_id="m3", position=position)
    assert fold(log_of(said("m1"), said("m2"), said("m3"), moved)).inbox.queue == order


def test_a_waiting_message_can_be_edited_and_removed() -> None:
    edited = e.MessageEdited(at_ms=4, message_id="m1", text="better", parts=(TextPart("p"),))
    session = fold(log_of(said("m1"), said("m2"), edited, e.MessageRemoved(at_ms=5, message_id="m2")))
    first, second = session.inbox.messages.values()
    assert (first.text, first.parts) == ("better", (TextPart("p"),))
    assert second.state is MessageState.REMOVED
    assert session.inbox.waiting() == [first]


def test_a_message_that_a_run_has_is_no_longer_edited_moved_or_removed() -> None:
    late = (
        e.MessageEdited(at_ms=4, message_id="m1", text="late"),
        e.MessageMoved(at_ms=5, message_id="m1", position=0),
        e.MessageRemoved(at_ms=6, message_id="m1"),
    )
    message = fold(log_of(*RUNNING, *late)).inbox.messages["m1"]
    assert (message.text, message.state, message.run_id) == ("m1", MessageState.DISPATCHED, "r1")


def test_a_run_that_took_a_message_up_has_it_even_if_it_was_just_taken_back() -> None:
    removed = e.MessageRemoved(at_ms=3, message_id="m1")
    dispatched = e.MessageDispatched(at_ms=4, run_id="r1", message_id="m1")
    message = fold(log_of(said("m1"), queued("r1", "m1"), removed, dispatched)).inbox.messages["m1"]
    assert (message.state, message.run_id) == (MessageState.DISPATCHED, "r1")


@pytest.mark.parametrize("mode", ["steer", "redirect"])
def test_a_steer_waits_for_its_run_until_it_is_dispatched(mode: Mode) -> None:
    waiting = (*RUNNING, said("m2", mode=mode, run_id="r1"))
    session = fold(log_of(*waiting))
    assert session.inbox.messages["m2"].state is MessageState.STEERING
    assert [message.message_id for message in session.inbox.steers("r1")] == ["m2"]
    assert session.inbox.steers("r2") == []
    session = fold(log_of(*waiting, e.MessageDispatched(at_ms=5, run_id="r1", message_id="m2")))
    assert session.inbox.messages["m2"].state is MessageState.DISPATCHED
    assert session.inbox.waiting() == []


def test_steers_that_came_too_late_are_next_in_the_queue() -> None:
    steers = (said("m3", mode="steer", run_id="r1"), said("m4", mode="steer", run_id="r1"))
    session = fold(log_of(*RUNNING, said("m2", mode="queue"), *steers, ended("r1")))
    assert session.inbox.queue == ["m3", "m4", "m2"]
    assert session.inbox.messages["m3"].state is MessageState.QUEUED
    assert session.inbox.messages["m3"].run_id == ""


def test_a_steer_for_a_run_that_has_ended_or_for_none_waits_in_the_queue() -> None:
    after = (said("m2", mode="steer", run_id="r1"), said("m3", mode="steer"))
    assert fold(log_of(*RUNNING, ended("r1"), *after)).inbox.queue == ["m2", "m3"]


def test_a_waiting_steer_can_become_a_run_of_its_own() -> None:
    session = fold(log_of(*RUNNING, said("m2", mode="steer", run_id="r1"), queued("r2", "m2")))
    assert (session.inbox.queue, session.inbox.steering) == (["m2"], [])


def test_a_queued_message_for_another_run_outlives_the_current_run() -> None:
    busy = said("m2", mode="queue", run_id="r1")
    session = fold(log_of(*RUNNING, busy, ended("r1")))
    assert session.inbox.queue == ["m2"]


def test_a_run_that_ends_before_its_start_takes_its_message_along() -> None:
    session = fold(log_of(said("m1"), queued("r1", "m1"), ended("r1")))
    message = session.inbox.messages["m1"]
    assert (message.state, message.run_id, session.inbox.queue) == (MessageState.DISPATCHED, "r1", [])


def test_a_retry_queues_the_same_message_again() -> None:
    again = (*RUNNING, ended("r1"), e.SessionRewound(at_ms=10, to_seq=1), queued("r2", "m1"))
    session = fold(log_of(*again))
    assert session.inbox.queue == ["m1"]
    assert fold(log_of(*again, started("r2"))).inbox.messages["m1"].run_id == "r2"


def test_a_start_does_not_take_a_message_that_another_run_has() -> None:
    elsewhere = e.MessageDispatched(at_ms=4, run_id="r1", message_id="m2")
    session = fold(log_of(*RUNNING, said("m2"), queued("r2", "m2"), elsewhere, ended("r1"), started("r2")))
    assert session.inbox.messages["m2"].run_id == "r1"


@pytest.mark.parametrize(
    "event",
    [
        e.MessageEdited(at_ms=4, message_id="m9", text=""),
        e.MessageMoved(at_ms=4, message_id="m9", position=0),
        e.MessageRemoved(at_ms=4, message_id="m9"),
        e.MessageDispatched(at_ms=4, run_id="r1", message_id="m9"),
        queued("r2", "m9"),
    ],
)
def test_an_event_about_an_unknown_message_is_illegal(event: e.Event) -> None:
    with pytest.raises(IllegalEvent, match=r"^seq 4: .* is illegal: message m9 is unknown$"):
        fold(log_of(*RUNNING, event))


def test_a_steer_for_an_unknown_run_is_illegal() -> None:
    with pytest.raises(
        IllegalEvent, match=r"seq 1: message.accepted of run r9 is illegal: the run is unknown"
    ):
        fold(log_of(said("m1", mode="steer", run_id="r9")))


def test_an_event_of_an_unknown_run_is_illegal() -> None:
    with pytest.raises(IllegalEvent, match=r"seq 1: run.started of run r9 is illegal: the run is unknown"):
        fold(log_of(started("r9")))


def test_a_run_is_queued_once() -> None:
    with pytest.raises(IllegalEvent, match=r"run.queued of run r1 \(phase running\) is illegal") as caught:
        fold(log_of(*RUNNING, queued("r1", "m1")))
    assert caught.value.reason == "the run was queued before"


PAUSED = (*RUNNING, ended("r1"), e.QueuePaused(at_ms=4))


@pytest.mark.parametrize(
    ("later", "is_held"),
    [
        ((said("m2", mode="queue"), queued("r2", "m2")), True),
        ((said("m2", mode="send"), queued("r2", "m2")), False),
        ((said("m2", mode="queue"), queued("r2", "m2"), ended("r2"), queued("r3", "m2")), False),
    ],
    ids=["lined up", "sent", "lined up and tried again"],
)
def test_a_pause_holds_what_is_lined_up_later_and_neither_what_is_sent_nor_what_is_tried_again(
    later: tuple[e.Event, ...], *, is_held: bool
) -> None:
    session = fold(log_of(*PAUSED, *later))
    assert session.holds(session.inbox.messages["m2"]) is is_held


def test_a_pause_holds_what_was_there_before_it_and_without_one_nothing_is_held() -> None:
    lined_up = (*RUNNING, said("m2", mode="queue"), queued("r2", "m2"))
    for pause in ((), (e.QueuePaused(at_ms=4),)):
        session = fold(log_of(*lined_up, *pause))
        assert session.holds(session.inbox.messages["m2"]) is bool(pause)


def test_a_person_moves_a_session_and_chooses_how_its_actions_are_approved() -> None:
    moved, chosen = e.SessionMoved(at_ms=4, home="b"), e.SessionModeSet(at_ms=5, mode="unattended", by="ann")
    session = fold(log_of(*RUNNING, moved, chosen))
    assert (session.home, session.has_moved) == ("b", True)
    assert (session.approval_mode, session.mode_set_by) == ("unattended", "ann")


def test_a_sessions_defaults_apply_to_runs_that_start_later() -> None:
    """P7: what the run starts with is on its own events, so a replay of the run alone has it, too."""
    chosen = e.SessionDefaultsSet(at_ms=4, model="b", instructions="Be brief.", reasoning_effort="low")
    asked = e.RunQueued(
        at_ms=6,
        run_id="r2",
        message_id="m2",
        settings=RunSettings(model="a", instructions="And kind.", reasoning_effort="high"),
    )
    later = (said("m2", mode="queue"), asked, said("m3", mode="queue"), queued("r3", "m3"))
    session = fold(log_of(*RUNNING, *later))
    assert session.started_settings(session.runs["r2"]) is None
    log = log_of(*RUNNING, chosen, *later)
    session = fold(log)
    known, second, third = map(session.started_settings, session.runs.values())
    assert known == third == RunSettings(model="b", instructions="Be brief.", reasoning_effort="low")
    assert second is not None
    assert (second.model, second.instructions, second.reasoning_effort) == (
        "b",
        "Be brief.\n\nAnd kind.",
        "high",
    )
    run = queued_run(1, asked)
    apply_to_run(run, 2, e.RunStarted(at_ms=7, run_id="r2", settings=second))
    assert run.settings == second


@pytest.mark.parametrize(
    ("mode", "folder", "kept"),
    [
        ("workspace", "/a", "workspace"),
        ("workspace", "/b", ""),
        ("workspace", "", ""),
        ("edits", "/a", "edits"),
        ("edits", "/b", ""),
        ("plan", "/b", "plan"),
        ("ask", "/b", "ask"),
        ("unattended", "/b", "unattended"),
    ],
)
def test_what_is_allowed_in_one_workspace_is_not_allowed_in_the_next(
    mode: ApprovalMode, folder: str, kept: str
) -> None:
    """P13: a queued run changes nothing, and going back to the first workspace doesn't restore the mode."""
    created = e.SessionCreated(at_ms=0, epoch="e", workspace="/a")
    chosen = mode_set(mode, at_ms=1, by="someone")
    there = e.RunQueued(at_ms=2, run_id="r1", message_id="m1", settings=RunSettings(workspace=folder))
    back = e.RunQueued(at_ms=2, run_id="r2", message_id="m2", settings=RunSettings(workspace="/a"))
    log = (created, chosen, said("m1"), there)
    assert fold(log_of(*log)).approval_mode == mode
    log = (*log, started("r1"))
    assert fold(log_of(*log)).approval_mode == kept
    assert fold(log_of(*log)).mode_set_by == ("someone" if kept else "")
    assert fold(log_of(*log, ended("r1"), said("m2"), back, started("r2"))).approval_mode == kept
    assert fold(log_of(*log, chosen)).approval_mode == mode
    # A channel names its own workspace, wherever the newest run works.
    there_again = replace(chosen, workspace="/a")
    assert fold(log_of(*log, ended("r1"), there_again, said("m2"), back, started("r2"))).approval_mode == mode


def test_a_mode_is_written_in_the_oldest_version_that_can_name_it() -> None:
    """P6: a node that's a version behind can still read the modes that it knows."""
    for mode in ("", *MODES):
        event = mode_set(mode, at_ms=1, by="ann", workspace="/a")
        assert type(event) is (e.PermissionModeSet if mode in {"plan", "edits"} else e.SessionModeSet)
        assert mode_of(event) == mode
        assert (event.by, event.workspace) == ("ann", "/a")


def test_a_session_of_an_older_version_is_its_own_chat() -> None:
    created = e.SessionCreated(at_ms=1, epoch="e", source="telegram")
    assert chat_of(created, "s") == "s"
    assert chat_of(replace(created, chat="tg/1"), "s") == "tg/1"
    assert chat_of(replace(created, source="api"), "s") == ""
