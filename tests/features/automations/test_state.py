"""The fold of a trigger, and what it does next."""

from datetime import UTC
from typing import Any

import msgspec

from holdfast import events as e
from holdfast.features.automations.events import (
    HookDelivered,
    TriggerCreated,
    TriggerDue,
    TriggerEdited,
    TriggerFired,
    TriggerGaveUp,
    TriggerMissed,
    TriggerMissedAnswered,
    TriggerPaused,
    TriggerResumed,
    TriggerRunAsked,
    TriggerRunEnded,
    TriggerScriptEnded,
    TriggerScriptStarted,
    TriggerSkipped,
)
from holdfast.features.automations.schedules import EverySchedule, Schedule
from holdfast.features.automations.state import HISTORY_MAX, PendingFire, Trigger, apply
from holdfast.features.automations.steps import (
    QUEUE_MAX,
    AppendEvents,
    Fire,
    StartScript,
    StopRuns,
    TriggerMoment,
    WaitForInstant,
    decided,
    next_step,
    schedule_of,
)
from holdfast.features.automations.values import (
    AfterRun,
    AtTime,
    CronTimes,
    EveryTimes,
    OnWebhook,
    TriggerSettings,
    When,
)

EVERY = EverySchedule(0, 60_000)


def fold(*events: e.Event) -> Trigger:
    trigger = Trigger()
    for seq, event in enumerate(events, 1):
        apply(trigger, seq, event)
        apply(trigger, seq, event)  # a second time it changes nothing
    # It is stored and read again.
    assert msgspec.json.decode(msgspec.json.encode(trigger), type=Trigger) == trigger
    return trigger


def settings(when: When = EveryTimes(seconds=60), **fields: Any) -> TriggerSettings:  # noqa: B008
    return TriggerSettings(name="t", prompt="p", when=when, **fields)


def created(**fields: Any) -> TriggerCreated:
    return TriggerCreated(at_ms=0, settings=settings(**fields), key="laptop")


def due(key: str = "at/60000", at_ms: int = 60_000, **fields: Any) -> TriggerDue:
    return TriggerDue(
        at_ms=at_ms, key=key, due_at_ms=at_ms, session_id="s", message_id="m", run_id="r", **fields
    )


def fired(key: str = "at/60000") -> TriggerFired:
    return TriggerFired(at_ms=1, key=key)


def ended(outcome: Any = "completed", key: str = "at/60000") -> TriggerRunEnded:
    return TriggerRunEnded(at_ms=1, key=key, outcome=outcome)


def step(trigger: Trigger, now_ms: int, schedule: Schedule | None = EVERY) -> Any:
    return next_step(trigger, schedule, TriggerMoment("trg_1", now_ms))


def test_a_fire_goes_from_due_to_its_outcome_and_moves_the_cursor() -> None:
    trigger = fold(e.SessionCreated(at_ms=0, epoch="e"), created())
    assert (trigger.api_key, step(trigger, 59_999)) == ("laptop", WaitForInstant(60_000))
    found = step(trigger, 60_000)
    assert isinstance(found, AppendEvents)
    assert (found.key, len(found.events)) == ("at/60000", 1)
    assert found == step(trigger, 60_000), "the ids follow from trigger and instant"
    trigger = fold(created(), due())
    assert (trigger.cursor_ms, step(trigger, 60_000)) == (60_000, Fire(trigger.fires["at/60000"]))
    trigger = fold(created(), due(), fired())
    assert [fire.key for fire in trigger.open_fires] == ["at/60000"]
    trigger = fold(created(), due(), fired(), ended())
    assert (trigger.fires["at/60000"].outcome, step(trigger, 60_000)) == (
        "completed",
        WaitForInstant(120_000),
    )


def test_events_that_come_twice_or_for_unknown_fires_change_nothing() -> None:
    trigger = fold(
        created(), due(), due(), fired(), ended(), fired(), fired("other"), e.SessionPinned(at_ms=1)
    )
    assert trigger.fires["at/60000"].state == "ended"
    skipped = TriggerSkipped(at_ms=1, key="at/60000", due_at_ms=60_000, why="queue_full")
    assert fold(created(), due(), skipped).fires["at/60000"].why == "queue_full"
    assert fold(created(), due(), fired(), skipped).fires["at/60000"].state == "fired"
    asked = TriggerRunAsked(at_ms=1, request_id="r")
    assert not fold(created(), due("run/r"), asked).pending


def test_only_so_many_fires_are_remembered_but_all_that_are_open() -> None:
    log: list[e.Event] = [created(), due("first"), fired("first")]
    for nth in range(HISTORY_MAX + 10):
        log += [TriggerSkipped(at_ms=1, key=f"at/{nth}", due_at_ms=nth, why="overlap")]
    trigger = fold(*log)
    assert len(trigger.fires) == HISTORY_MAX
    assert "first" in trigger.fires


def test_failures_in_a_row_give_up_and_a_success_or_a_resumption_begins_anew() -> None:
    log: list[e.Event] = [created(failures_max=2)]
    for nth, outcome in enumerate(["failed", "completed", "budget", "cancelled", None, "failed"]):
        log += [due(f"at/{nth}"), fired(f"at/{nth}"), ended(outcome, f"at/{nth}")]
    trigger = fold(*log)
    assert trigger.failures == 2
    gave_up = step(trigger, 1).events[0]
    assert gave_up == TriggerGaveUp(at_ms=1, failures=2)
    trigger = fold(*log, gave_up)
    assert (trigger.is_paused, trigger.gave_up_after, step(trigger, 10**9)) == (True, 2, WaitForInstant())
    trigger = fold(*log, gave_up, TriggerResumed(at_ms=500_000))
    assert (trigger.failures, trigger.cursor_ms, trigger.is_paused) == (0, 500_000, False)


def test_what_is_missed_is_one_record_and_asked_about_until_somebody_answers() -> None:
    trigger = fold(created(missed="ask"))
    missed = step(trigger, 600_000).events[0]
    assert (missed.first_ms, missed.last_ms, missed.count, missed.then) == (60_000, 480_000, 8, "ask")
    once = step(fold(created()), 600_000)
    assert [type(event) for event in once.events] == [TriggerMissed, TriggerDue]
    assert (once.key, once.events[1].missed) == ("at/480000", 8)
    made_up_for = fold(created(), once.events[0])
    assert (len(made_up_for.missed), made_up_for.unanswered) == (1, None)
    more = TriggerMissed(at_ms=9, first_ms=500_000, last_ms=900_000, count=2, then="ask", is_more=True)
    trigger = fold(created(), missed, more)
    assert trigger.unanswered is not None
    assert (trigger.unanswered.count, trigger.unanswered.is_more) == (10, True)
    no = fold(created(), missed, TriggerMissedAnswered(at_ms=1, run=False))
    assert (no.unanswered, no.pending) == (None, {})
    yes = fold(created(), TriggerMissedAnswered(at_ms=1, run=True), missed)
    assert not yes.pending, "an answer to nothing"
    yes = fold(created(), missed, TriggerMissedAnswered(at_ms=1, run=True))
    assert step(yes, 490_000).events[0].missed == 8
    assert (
        fold(created(), missed, TriggerEdited(at_ms=5, settings=settings(AtTime(at_ms=9)))).unanswered is None
    )


def test_times_decided_on_while_the_clock_was_ahead_are_held_until_it_is_resumed() -> None:
    """P14, P3: for a day at most; an instant that was fired keeps its key."""
    trigger = fold(created(), due("at/3600000", 3_600_000))
    assert trigger.held_until_ms(60_000) == 3_600_000
    assert trigger.held_until_ms(3_540_000) == 0
    assert fold(created(), due("at/3600000", 3_600_000), TriggerPaused(at_ms=1)).held_until_ms(0) == 0
    assert Trigger(cursor_ms=3_600_000).held_until_ms(0) == 0
    resumed = fold(created(), due("at/3600000", 3_600_000), TriggerResumed(at_ms=3_600_000, from_ms=90_000))
    assert (resumed.held_until_ms(90_000), resumed.cursor_ms, resumed.anchor_ms) == (0, 90_000, 0)
    late = TriggerCreated(at_ms=10**12, settings=settings())
    assert fold(late, TriggerResumed(at_ms=10**12, from_ms=5)).anchor_ms == 5
    year = fold(created(), due("at/1", 365 * 86_400_000), fired("at/1"), ended(key="at/1"))
    assert step(year, 90_000).events == (TriggerResumed(at_ms=90_000, from_ms=90_000, by="clock"),)


def test_an_edit_of_the_times_begins_anew_and_any_other_edit_does_not() -> None:
    same = fold(created(), due(), TriggerEdited(at_ms=99_000, settings=settings(overlap="skip")))
    assert (same.cursor_ms, same.anchor_ms) == (60_000, 0)
    after = TriggerEdited(at_ms=99_000, settings=settings(AfterRun(session_id="s")), seen_seq=7)
    other = fold(created(), due(), after)
    assert (other.cursor_ms, other.anchor_ms, other.seen_seq) == (99_000, 99_000, 7)


def test_nothing_fires_without_settings_or_after_deletion_until_it_is_restored() -> None:
    deleted = e.SessionDeleted(at_ms=1, purge_at_ms=9)
    assert step(Trigger(), 10**9) == WaitForInstant()
    assert step(fold(created(), deleted), 10**9) == WaitForInstant()
    assert not fold(created(), deleted, e.SessionRestored(at_ms=2)).is_deleted
    assert step(fold(created()), 10**9, None) == WaitForInstant()
    once = schedule_of(AtTime(at_ms=5), anchor_ms=0, zones=lambda _: UTC)
    assert (
        step(fold(created(), due("at/5", 5), fired("at/5"), ended(key="at/5")), 10, once) == WaitForInstant()
    )


def test_overlap_decides_what_becomes_of_a_fire_while_another_is_open() -> None:
    delivered = HookDelivered(at_ms=5, delivery_id="d", blob="b", bytes=1, event="push")
    for overlap in ("queue", "skip", "replace"):
        trigger = fold(created(overlap=overlap), due("at/1"), fired("at/1"), delivered)
        found = step(trigger, 10)
        if overlap == "queue":
            assert isinstance(found.events[0], TriggerDue)
        elif overlap == "skip":
            assert found.events[0].why == "overlap"
        else:
            assert isinstance(found, StopRuns)
            assert [fire.key for fire in found.fires] == ["at/1"]
    waits = fold(created(), due("at/1"), fired("at/1"), delivered, due("hook/d", 5))
    assert (waits.fires["hook/d"].blob, waits.fires["hook/d"].event) == ("b", "push")
    assert step(waits, 10) == WaitForInstant(120_000), "a session of its own waits for the one before"
    same = fold(created(session_id="s"), due("at/1"), fired("at/1"), due("at/2"))
    assert isinstance(step(same, 10), Fire), "a session queues by itself"


def test_a_paused_trigger_skips_deliveries_and_a_full_queue_takes_no_more() -> None:
    delivered = HookDelivered(at_ms=5, delivery_id="d", blob="b", bytes=1)
    paused = fold(created(when=OnWebhook()), TriggerPaused(at_ms=1), delivered)
    assert step(paused, 10, None).events[0].why == "paused"
    full = fold(created(), *(due(f"at/{nth}") for nth in range(QUEUE_MAX)))
    found = decided(full, PendingFire(key="after/r", at_ms=1, seen_seq=9), TriggerMoment("trg_1", 2))
    assert isinstance(found, AppendEvents)
    assert found.events[0] == TriggerSkipped(
        at_ms=2, key="after/r", due_at_ms=1, why="queue_full", seen_seq=9
    )


def test_each_kind_of_time_has_its_schedule_or_none() -> None:
    kinds: tuple[When, ...] = (
        CronTimes(expression="* * * * *"),
        EveryTimes(seconds=5),
        AtTime(at_ms=9),
        OnWebhook(),
        AfterRun(session_id="s"),
    )
    found = [schedule_of(when, anchor_ms=0, zones=lambda _: UTC) for when in kinds]
    assert [one is None for one in found] == [False, False, False, True, True]


def test_a_script_runs_before_the_message_and_its_outcome_is_kept() -> None:
    """P14: it starts at most once; a script that a crash hid is lost, and the message is sent."""
    started = TriggerScriptStarted(at_ms=1, key="at/60000")
    done = TriggerScriptEnded(at_ms=2, key="at/60000", outcome="failed", why="exit code 1", blob="b")
    of_script = created(script="make report")
    trigger = fold(of_script, due())
    assert step(trigger, 60_000) == StartScript(trigger.fires["at/60000"])
    assert step(fold(of_script, due(), started), 60_000) == WaitForInstant(120_000)
    trigger = fold(of_script, due(), started, done)
    fire = trigger.fires["at/60000"]
    assert (fire.script, fire.script_why, fire.script_blob) == ("failed", "exit code 1", "b")
    assert step(trigger, 60_000) == Fire(fire)
    assert fold(of_script, started, done).fires == {}, "nothing is known of that occurrence"


def test_a_trigger_that_is_done_continues_from_now_when_its_times_are_raised() -> None:
    """P14: times that passed while it was done aren't missed."""
    whole = (created(times=1), due(), fired(), ended())
    trigger = fold(*whole)
    assert (trigger.is_done, trigger.can_fire) == (True, False)
    more = TriggerEdited(at_ms=500_000, settings=settings(times=2), from_ms=480_000)
    trigger = fold(*whole, more)
    assert (trigger.is_done, trigger.can_fire, trigger.cursor_ms) == (False, True, 480_000)
    assert fold(*whole, e.SessionDeleted(at_ms=2, purge_at_ms=9)).can_fire is False
    assert fold(created(when=AtTime(at_ms=60_000)), due(), fired(), ended()).can_fire is False
    assert Trigger().can_fire is False
