"""Notices while a run works: that its budget runs out, and that a crash delayed it; each once."""

from holdfast import events as e
from holdfast.events import Event
from holdfast.features.channels.session_watcher import notices
from holdfast.features.channels.state import AcceptedMessage, ChannelState, apply_to_channel
from holdfast.folds.session_fold import SessionFold
from holdfast.values import Budget, RunSettings

HOUR_MS = 3_600_000


def begun(budget: Budget | None = None) -> list[Event]:
    return [
        e.SessionCreated(at_ms=1, epoch="e"),
        e.MessageAccepted(at_ms=1, message_id="m", text="hi"),
        e.RunQueued(at_ms=1, run_id="r", message_id="m", settings=RunSettings(budget=budget)),
        e.MessageDispatched(at_ms=1, run_id="r", message_id="m"),
        e.RunStarted(at_ms=1, run_id="r"),
    ]


def used(tokens: int) -> e.Usage:
    return e.Usage(at_ms=2, run_id="r", call_id="c", input_tokens=tokens)


def told(log: list[Event], *, limit: Budget | None = None, elsewhere: bool = False) -> list[tuple[str, str]]:
    """The key and the words of each notice, asked for after every event, with the outbox that follows."""
    channel, session = ChannelState(), SessionFold()
    taken = AcceptedMessage("1", "s", "m", "5", is_from_elsewhere=elsewhere)
    channel.awaited[taken.awaited_as] = taken
    found: list[tuple[str, str]] = []
    for seq, event in enumerate(log, 1):
        session.apply(seq, event)
        for one in notices(channel, "s", session, budget=limit or Budget(), now_ms=9):
            assert isinstance(one, e.DeliveryIntended)
            apply_to_channel(channel, len(found) + 1, one)
            found.append((one.key, one.body))
    return found


def test_a_budget_that_runs_out_is_said_once_and_not_before() -> None:
    """P14: under its own key."""
    own = Budget(tokens=1_000)
    assert told([*begun(own), used(700)]) == []
    assert told([*begun(own), used(700), used(150), used(100)]) == [
        (
            "r/budget/0",
            (
                "This run has used more than 80% of its budget of 1,000 tokens. "
                "It stops when the budget is used up."
            ),
        )
    ]
    assert len(told([*begun(), used(900)], limit=own)) == 1
    assert told([*begun(), used(10**9)]) == []
    assert told([*begun(own), used(900)], elsewhere=True) == []


def test_who_waited_through_a_crash_is_told_once_and_nobody_else() -> None:
    """P9: a short pause, an orderly restart and a run that waits for a person are no news."""
    crash = e.RunResumed(at_ms=1 + HOUR_MS, run_id="r", after="crash")
    assert told([*begun(), crash, e.RunResumed(at_ms=2 + 3 * HOUR_MS, run_id="r", after="crash")]) == [
        ("r/resumed/0", "The server was down for 60 minutes. The run continues now.")
    ]
    assert told([*begun(), e.RunResumed(at_ms=1_000, run_id="r", after="crash")]) == []
    assert told([*begun(), e.RunResumed(at_ms=HOUR_MS, run_id="r", after="restart")]) == []
    asked = e.QuestionAsked(
        at_ms=2, run_id="r", tool_call_id="t", question_id="q", text="Which?", expires_at_ms=9
    )
    assert told([*begun(), asked, crash]) == []
    assert told([*begun(), crash], elsewhere=True) == []
    over = e.RunEnded(at_ms=3 + HOUR_MS, run_id="r", outcome="completed")
    assert len(told([*begun(), crash, over])) == 1
