"""The watchdogs after the first event: what is healthy silence, what is a stall, what re-arms nothing."""

import asyncio
from typing import Any

from holdfast import events as e
from holdfast.chaos import (
    Begin,
    CallTool,
    Finish,
    Gate,
    Hang,
    KeepAlive,
    Lifecycle,
    OpenItem,
    Say,
    SayWords,
    Think,
    Wait,
)
from holdfast.interfaces.model import Answer
from holdfast.targets import Wire
from side_by_side import on_each_wire, on_wires
from tables import for_each_row

from .calling import SHORT_S, WIRES, Line, line_of, wait_through_cancel


async def stalled_once(line: Line) -> None:
    assert isinstance(await line.ask(), Answer)
    (failed,) = line.told.of(e.AttemptFailed)
    assert failed.failure.kind == "stalled"
    assert failed.close_reason == "stream_idle_kill"
    assert "after first byte" in failed.failure.text
    assert line.told.text == "hello"


@for_each_row("said", [[Begin()], [Say("he")]], ids=["begun", "streaming"])
@on_each_wire
async def test_keep_alives_for_ever_are_cut(wire: Wire, said: list[Any]) -> None:
    """Scenario 1, P3: the line is alive, the work is not."""
    async with line_of(wire, [*said, KeepAlive(pace_s=0.02)], [Say("hello")]) as (line, server):
        line.patient(gap_s=SHORT_S)
        await stalled_once(line)
        assert await server.seen.until_closed(1) in {"peer", "peer reset"}


@for_each_row("said", [[Begin()], [Say("he")]], ids=["begun", "streaming"])
@on_each_wire
async def test_lifecycle_events_over_and_over_re_arm_nothing(wire: Wire, said: list[Any]) -> None:
    """Scenario 1, P3."""
    async with line_of(wire, [*said, Lifecycle(10_000, pace_s=0.02)], [Say("hello")]) as (line, _):
        line.patient(gap_s=SHORT_S)
        await stalled_once(line)


@on_wires("responses", "anthropic")
async def test_silent_thinking_inside_an_opened_item_completes(wire: Wire) -> None:
    """Scenario 2; the chat wire has no way to open thinking without a word."""
    gate = Gate()
    script = [Begin(), Lifecycle(3), Say("well "), OpenItem("thinking"), Wait(gate), Think("hm"), Say("yes")]
    async with line_of(wire, script) as (line, server):
        line.patient(first_event_s=SHORT_S, gap_s=SHORT_S, first_progress_s=30)
        task = line.start()
        await gate.reached()
        assert "reconnects at 30 s" in await line.told.until_line("is thinking")
        await wait_through_cancel(SHORT_S)
        gate.open()
        assert isinstance(await task, Answer)
        assert line.told.failures == []
        assert line.told.text == "well yes"
        assert server.seen.requests_seen == 1


@on_each_wire
async def test_a_tool_call_that_was_opened_may_be_thought_about(wire: Wire) -> None:
    """Scenario 2."""
    gate = Gate()
    script = [Say("well "), OpenItem("call", name="look"), Wait(gate), CallTool("look", {"at": 1})]
    async with line_of(wire, script) as (line, _):
        line.patient(gap_s=SHORT_S, first_progress_s=30)
        task = line.start()
        await gate.reached()
        await wait_through_cancel(SHORT_S)
        gate.open()
        assert isinstance(await task, Answer)
        assert line.told.failures == []


@on_each_wire
async def test_an_opened_item_that_stays_silent_is_cut_by_first_progress(wire: Wire) -> None:
    """Scenario 2, P3: silent thinking is healthy, for so long."""
    async with line_of(wire, [Say("he"), OpenItem("call"), Hang()], [Say("hello")]) as (line, _):
        line.patient(gap_s=30, first_progress_s=SHORT_S)
        await stalled_once(line)
        assert f"{SHORT_S:g} s after first byte" in line.told.failures[0].text


@on_each_wire
async def test_a_steady_slow_stream_longer_than_every_deadline_completes(wire: Wire) -> None:
    """Scenario 3, S001-1: only silence can end a stream, never its length."""
    words = " ".join(str(n) for n in range(35))
    async with line_of(wire, [SayWords(words, pace_s=0.02)]) as (line, server):
        line.patient(connect_s=0.5, upload_s=0.5, first_event_s=0.5, first_progress_s=0.5, gap_s=0.5)
        assert isinstance(await line.ask(), Answer)
        assert line.told.text == words
        assert line.told.failures == []
        assert server.seen.requests_seen == 1


@on_each_wire
async def test_silence_in_the_middle_is_cut_and_the_half_answer_superseded(wire: Wire) -> None:
    """S000-5, P3."""
    async with line_of(wire, [Say("hel"), Hang()], [Say("hello")]) as (line, _):
        line.patient(gap_s=SHORT_S)
        await stalled_once(line)
        (superseded,) = line.told.of(e.AttemptSuperseded)
        assert superseded.attempt_id == line.told.of(e.AttemptFailed)[0].attempt_id


@on_each_wire
async def test_while_our_own_journal_is_behind_the_peer_is_not_late(wire: Wire) -> None:
    """P10: the watchdog rests while it is we who do not read."""
    async with line_of(wire, [Say("hel"), Say("lo")]) as (line, _):
        line.patient(gap_s=SHORT_S, first_event_s=SHORT_S)

        def fill(event: e.Event) -> None:
            line.told.full = line.told.full or isinstance(event, e.TextDelta)

        line.told.on_event = fill
        task = line.start()
        await line.told.made_room.reached()
        await wait_through_cancel(SHORT_S)
        assert "reconnects" not in line.told.line, "nothing is counted while we keep the peer waiting"
        line.told.made_room.open()
        assert isinstance(await task, Answer)
        assert line.told.text == "hello"
        assert line.told.failures == []


async def test_an_answer_whose_stream_is_never_closed_is_an_answer() -> None:
    """P3, P4: the marker counts; all that is missing is the end of the stream."""
    await asyncio.gather(*map(answered_without_an_end, WIRES))


async def answered_without_an_end(wire: Wire) -> None:
    async with line_of(wire, [Say("hello"), Finish(), Hang()]) as (line, server):
        task = line.start()
        assert "continues at 1 s" in await line.told.until_line("has answered")
        assert isinstance(await task, Answer)
        assert line.told.text == "hello"
        assert line.told.failures == []
        assert await server.seen.until_closed(1) == "peer"
