"""Hedging: another target is asked beside a slow one, and who advances first may speak."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fakes.cancel import CancelAt
from holdfast import events as e
from holdfast.chaos import (
    Begin,
    CallTool,
    ChaosServer,
    Drop,
    Gate,
    Hang,
    Say,
    Think,
    Wait,
    overloaded,
    server_error,
)
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.models.call_deps import HEDGE_SHARE
from holdfast.targets import Patience, RetryLimits, Wire
from holdfast.values import Failure
from side_by_side import on_each_wire
from tables import for_each_row

from .calling import HANGS_S, Line, ended_by, line_to, nothing_left, request_of, target_of

GOOD = [Say("hello")]
HEDGED = RetryLimits(hedge=True, attempts_max=5)
PATIENCE = Patience(first_event_s=HANGS_S)
# The other target is asked soon, and the patience with the first is not over on a slow machine.
SOON = 0.001


@asynccontextmanager
async def two(
    wire: Wire, slow: Sequence[Any], quick: Sequence[Any], **fields: Any
) -> AsyncGenerator[tuple[Line, ChaosServer, ChaosServer]]:
    async with ChaosServer(*slow) as first, ChaosServer(*quick) as second:
        known = {"patience": PATIENCE, "retry": HEDGED} | fields
        targets = [
            target_of(server, wire, name, **known) for server, name in ((first, "slow"), (second, "quick"))
        ]
        async with line_to(*targets) as line:
            line.hedge_share = SOON
            yield line, first, second


def told(line: Line) -> list[str]:
    """The attempts as they stand on the log."""
    names = {event.attempt_id: event.target for event in line.told.of(e.AttemptStarted)}
    lines: list[str] = []
    for event in line.told.events:
        if isinstance(event, e.AttemptStarted):
            lines.append(f"{event.target} started {event.nth}")
        elif isinstance(event, e.AttemptFailed):
            lines.append(f"{names[event.attempt_id]} {event.failure.kind}")
        elif isinstance(event, e.AttemptSuperseded):
            lines.append(f"{names[event.attempt_id]} superseded")
        elif isinstance(event, e.TextDelta):
            lines.append(event.text)
    return lines


async def test_the_other_target_answers_when_the_first_is_silent(wire: Wire) -> None:
    """P3: long before the patience is over; the loser is stopped and says why."""
    async with two(wire, [[Hang()]], [GOOD]) as (line, slow, quick):
        assert isinstance(await line.ask(), Answer)
        assert told(line) == ["slow started 1", "quick started 2", "hello", "slow cancelled"]
        (failed,) = line.told.of(e.AttemptFailed)
        assert failed.failure.text == "stopped: another target was faster"
        assert failed.close_reason == "cancel"
        assert await slow.seen.until_closed(1) == "peer"
        assert line.told.text == "hello"
        (switched,) = line.told.of(e.TargetSwitched)
        assert switched.why == "slow was slower"
        assert quick.seen.requests_seen == 1
        await nothing_left()


async def test_a_hedge_to_a_target_that_was_silent_is_its_only_probe() -> None:
    """P3: calls that hedge at the same time don't all ask a target that may still be silent."""
    async with two("chat", [[Hang()], [Hang()]], [[Hang()], [Hang()]]) as (line, slow, quick):
        other = line.targets[1]
        for _ in range(3):
            await line.shared.failed(other, Failure(kind="stalled", text=""))
        line.clock.passed_ms += line.shared.breaker_wait_ms(other)
        hedged = line.start(sink=line.another_voice())
        await quick.seen.until_request(1)
        assert not line.shared.may_probe_early(other)
        beside = line.start(sink=line.another_voice())
        await slow.seen.until_request(2)
        for call in (hedged, beside):
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        assert quick.seen.requests_seen == 1, "one probe at a time"
        assert line.shared.may_pass(other), "a probe that was cancelled found out nothing"


async def test_the_loser_is_stopped_at_the_first_progress_of_the_other() -> None:
    """P5: nobody pays for two answers to the end."""
    gate = Gate()
    said = [Say("hel"), Wait(gate), Say("lo")]
    patience = Patience(first_event_s=HANGS_S, gap_s=HANGS_S)
    async with two("chat", [[Hang()]], [said], patience=patience) as (line, slow, _):
        task = line.start()
        async with asyncio.timeout(HANGS_S):
            assert await slow.seen.until_closed(1) == "peer"
        assert not task.done(), "the winner is still at it"
        gate.open()
        assert isinstance(await task, Answer)
        assert line.told.kinds == ["cancelled"]


@on_each_wire
async def test_the_first_may_still_win(wire: Wire) -> None:
    """The slow one advances after all, and the other is stopped without a word on the screen."""
    gate = Gate()
    async with two(wire, [[Wait(gate), Say("hello")]], [[Begin(), Hang()]]) as (line, _, quick):
        line.patient(first_event_s=HANGS_S, first_progress_s=HANGS_S)
        task = line.start()
        await quick.seen.until_request(1)
        gate.open()
        assert isinstance(await task, Answer)
        assert told(line) == ["slow started 1", "hello", "quick started 2", "quick cancelled"]
        assert line.told.of(e.TargetSwitched) == []
        assert line.told.text == "hello"
        assert await quick.seen.until_closed(1) == "peer"
        text = next(entry for entry in line.told.seen.entries if entry.seq > 5)
        assert getattr(text, "target", "") == "slow", "the text is told as the first one's"


@for_each_row("first", [[Begin()], [Think("hm")], [Say("he")]], ids=["event", "thought", "text"])
@on_each_wire
async def test_an_event_is_enough_not_to_ask_another(wire: Wire, first: list[Any]) -> None:
    """Never after visible output, nor after any sign of life."""
    gate = Gate()
    async with two(wire, [[*first, Wait(gate), Say("llo")]], []) as (line, _, quick):
        line.hedge_share = HEDGE_SHARE
        line.patient(first_event_s=0.8, gap_s=HANGS_S, first_progress_s=HANGS_S)
        task = line.start()
        await gate.reached()
        await asyncio.sleep(0.45)
        gate.open()
        assert isinstance(await task, Answer)
        assert quick.seen.requests_seen == 0


@on_each_wire
async def test_not_after_visible_output_in_an_earlier_attempt(wire: Wire) -> None:
    """A retry after visible output is never silent, and never two at once."""
    async with two(wire, [[Say("hel"), Drop()], [Hang()], [Hang()]], [GOOD]) as (line, _, quick):
        line.hedge_share = HEDGE_SHARE
        line.patient(first_event_s=1.0)
        assert isinstance(await line.ask(), Answer)
        assert told(line)[:5] == [
            "slow started 1",
            "hel",
            "slow dropped",
            "slow superseded",
            "slow started 2",
        ]
        assert told(line)[5] == "slow no_first_event"
        assert quick.seen.requests_seen == 1


@on_each_wire
async def test_tools_alone_win_too(wire: Wire) -> None:
    """The first progress wins, visible or not."""
    async with two(wire, [[Hang()]], [[CallTool("look", {"at": 1})]]) as (line, _, __):
        answer = await line.ask()
        assert isinstance(answer, Answer)
        assert answer.finish == "tools"
        assert len(line.told.of(e.ToolAsked)) == 1


@on_each_wire
async def test_both_count_against_the_budget(wire: Wire) -> None:
    """P3: two attempts are two, whoever wins."""
    limits = RetryLimits(hedge=True, attempts_max=2)
    silent = [[Hang()], [Hang()], [Hang()]]
    async with two(wire, silent, silent, retry=limits, patience=Patience(first_event_s=0.1)) as (
        line,
        slow,
        quick,
    ):
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        assert slow.seen.requests_seen + quick.seen.requests_seen == 2
        assert len(ended.trace) == 2


@on_each_wire
async def test_without_budget_for_two_there_is_one(wire: Wire) -> None:
    limits = RetryLimits(hedge=True, attempts_max=1)
    async with two(wire, [[Hang()]], [GOOD], retry=limits) as (line, _, quick):
        line.patient(first_event_s=0.1)
        assert isinstance(await line.ask(), NoAnswer)
        assert quick.seen.requests_seen == 0


@on_each_wire
async def test_the_second_failing_leaves_the_first_to_it(wire: Wire) -> None:
    """The slow one answers in the end, and what the other said is on the log, after it."""
    gate = Gate()
    async with two(wire, [[Wait(gate), Say("hello")]], [[server_error()]]) as (line, _, quick):
        task = line.start()
        await quick.seen.until_ended(1)
        gate.open()
        assert isinstance(await task, Answer)
        assert told(line) == ["slow started 1", "hello", "quick started 2", "quick server_error"]


@on_each_wire
async def test_the_first_failing_leaves_the_second_to_it(wire: Wire) -> None:
    """The second becomes the attempt of the call, visibly."""
    gates = Gate(), Gate()
    async with two(wire, [[Wait(gates[0]), overloaded()]], [[Wait(gates[1]), Say("hello")]]) as (
        line,
        slow,
        _,
    ):
        task = line.start()
        await gates[1].reached()
        gates[0].open()
        await slow.seen.until_ended(1)
        await line.told.until_line("quick-model")
        gates[1].open()
        assert isinstance(await task, Answer)
        assert told(line) == ["slow started 1", "slow overloaded", "quick started 2", "hello"]


@on_each_wire
async def test_a_winner_that_drops_is_retried_and_the_slow_one_may_be_asked_again(wire: Wire) -> None:
    async with two(wire, [[Hang()], GOOD], [[Say("hel"), Drop()], [server_error()]]) as (line, _, __):
        assert isinstance(await line.ask(), Answer)
        assert line.told.text == "hello"
        assert told(line)[-2:] == ["slow started 5", "hello"] or told(line)[-2:] == [
            "slow started 4",
            "hello",
        ]


@on_each_wire
async def test_off_by_default(wire: Wire) -> None:
    async with two(wire, [[Hang()], GOOD], [], retry=RetryLimits()) as (line, _, quick):
        line.patient(first_event_s=0.6)
        assert isinstance(await line.ask(), Answer)
        assert quick.seen.requests_seen == 0


async def test_cancel_stops_both(wire: Wire) -> None:
    """P5."""
    async with two(wire, [[Hang()]], [[Hang()]]) as (line, slow, quick):
        task = line.start()
        await quick.seen.until_body(1)
        await ended_by(task, "user_stop")
        for server in (slow, quick):
            assert await server.seen.until_closed(1) == "peer"
        assert {failure.text for failure in line.told.failures} == {"stopped: user_stop"}
        assert len(line.told.failures) == 2
        await nothing_left()


async def test_cancel_at_every_suspension_of_a_race() -> None:
    """P5."""
    for nth in range(1, 50):
        async with two("chat", [[Hang()]], [GOOD]) as (line, _, __):
            call = CancelAt(line.calls.answer(request_of(), line.told, turn=1), nth)
            task = await call.in_own_task()
            await nothing_left()
            line.told.log()
            if not call.reached:
                assert isinstance(task.result(), Answer | NoAnswer)
                return
            assert task.cancelled()
    pytest.fail("a race has no end")
