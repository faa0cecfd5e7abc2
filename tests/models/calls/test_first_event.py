"""The first-event watchdog: when it cuts, what it then says, and what it leaves alone."""

import asyncio

from holdfast import events as e
from holdfast.chaos import (
    Begin,
    CallTool,
    ChaosServer,
    Gate,
    Hang,
    Headers,
    KeepAlive,
    OpenItem,
    Say,
    Step,
    Think,
    Wait,
)
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.targets import Patience, Wire
from side_by_side import on_each_wire, on_wires
from tables import for_each_row

from .calling import SHORT_S, WIRES, Names, line_of, line_to, request_of, target_of, wait_through_cancel

LONG = "x" * 120_000


async def test_silence_is_cut_at_the_patience_and_a_fresh_connection_follows_at_once() -> None:
    """S000-1, P3: on all wires at the same time, for it takes a second."""
    await asyncio.gather(*map(cut_after_a_second, WIRES))


async def cut_after_a_second(wire: Wire) -> None:
    async with line_of(wire, [Hang()], [Say("hello")]) as (line, server):
        line.patient(first_event_s=1)
        assert isinstance(await line.ask(), Answer)
        (failed,) = line.told.of(e.AttemptFailed)
        assert failed.failure.kind == "no_first_event"
        assert "no first byte in 1 s (TTFB threshold: 1s)" in failed.failure.text
        assert failed.close_reason == "ttfb_kill"
        assert line.told.text == "hello"
        assert line.clock.slept_s == [], "the first one is tried again at once"
        assert server.seen.connections_seen == 2, "the second request had a connection of its own"
        assert await server.seen.until_closed(1) == "peer"


@on_each_wire
async def test_headers_are_no_event(wire: Wire) -> None:
    """S000-1."""
    await cut_once(wire, [Headers(), Hang()])


@on_wires("responses", "chat")
async def test_comments_are_no_events(wire: Wire) -> None:
    """Scenario 1: keep-alives arm nothing; the anthropic wire's is an event of its own, `ping`."""
    await cut_once(wire, [Headers(), KeepAlive(pace_s=0.02)])


async def cut_once(wire: Wire, silence: list[Step]) -> None:
    async with line_of(wire, silence, [Say("hello")]) as (line, _):
        line.patient(first_event_s=SHORT_S)
        assert isinstance(await line.ask(), Answer)
        assert line.told.kinds == ["no_first_event"]
        assert line.told.close_reasons == ["ttfb_kill"]


@on_each_wire
async def test_a_model_that_is_known_to_be_dropped_silently_comes_with_a_hint(wire: Wire) -> None:
    """S000-2."""
    async with ChaosServer([Hang()], [Hang()], [Hang()]) as server:
        codex = target_of(
            server,
            wire,
            base_url="http://chatgpt.com/backend-api/codex",
            model="gpt-5.5",
            patience=Patience(first_event_s=0.1),
        )
        async with line_to(codex, resolver=Names({"chatgpt.com": server.port})) as line:
            task = line.start()
            await server.seen.until_body(1)
            assert "gpt-5.4 or gpt-5.3-codex" in await line.told.until_line("waiting")
            ended = await task
            assert isinstance(ended, NoAnswer)
            assert "gpt-5.4 or gpt-5.3-codex" in ended.failure.hint
            assert "some accounts do not support gpt-5.4-codex" in ended.failure.hint
            assert all("gpt-5.4" in failure.hint for failure in line.told.failures)


async def test_a_model_that_refuses_aloud_comes_without_the_hint() -> None:
    """S000-2: who answers with an error was not silent."""
    async with ChaosServer() as server:
        codex = target_of(
            server, "responses", base_url="http://chatgpt.com/backend-api/codex", model="gpt-5.5"
        )
        async with line_to(codex, resolver=Names({"chatgpt.com": server.port})) as line:
            assert isinstance(await line.ask(), NoAnswer)
            assert {failure.hint for failure in line.told.failures} == {""}


@on_each_wire
async def test_the_operators_cap_is_stronger_and_is_named(wire: Wire) -> None:
    """S000-3."""
    async with line_of(wire, [Hang()], [Say("hello")]) as (line, _):
        line.patient(first_event_s=90, first_event_cap_s=0.15)
        assert isinstance(await line.ask(), Answer)
        (failure,) = line.told.failures
        assert "TTFB threshold: 0.15s" in failure.text
        assert "capped by the operator at 0.15 s" in failure.text
        assert line.told.of(e.AttemptStarted)[0].first_event_s == 0.15


FIRST: dict[str, Step] = {
    "lifecycle": Begin(),
    "thinking opened": OpenItem("thinking"),
    "reasoning": Think("hm"),
    "call opened": OpenItem("call"),
    "text": Say("he"),
}
# The chat wire has no way to open thinking without a word.
PAIRS: list[tuple[Wire, str]] = [
    (wire, name) for wire in WIRES for name in FIRST if (wire, name) != ("chat", "thinking opened")
]


async def test_any_event_satisfies_it_and_the_rest_may_take_its_time() -> None:
    """S000-4, S001-1: all at the same time, for each takes more than a second."""
    await asyncio.gather(*[satisfied_by(wire, first) for wire, first in PAIRS])


async def satisfied_by(wire: Wire, first: str) -> None:
    gate = Gate()
    async with line_of(wire, [FIRST[first], Wait(gate), Say("llo")]) as (line, server):
        line.patient(first_event_s=0.8)
        task = line.start()
        await gate.reached()
        await wait_through_cancel(0.8)
        gate.open()
        assert isinstance(await task, Answer), (wire, first)
        assert line.told.failures == [], (wire, first)
        assert server.seen.requests_seen == 1, (wire, first)


@on_each_wire
async def test_one_opening_event_and_then_silence_is_an_idle_kill(wire: Wire) -> None:
    """S000-5."""
    async with line_of(wire, [Begin(), Hang()], [Say("hello")]) as (line, server):
        line.patient(first_event_s=90, gap_s=SHORT_S)
        assert isinstance(await line.ask(), Answer)
        (failed,) = line.told.of(e.AttemptFailed)
        assert failed.failure.kind == "stalled"
        assert f"no events for {SHORT_S:g} s after first byte" in failed.failure.text
        assert "TTFB" not in failed.failure.text
        assert failed.close_reason == "stream_idle_kill"
        assert await server.seen.until_closed(1) == "peer"


@on_each_wire
async def test_zero_switches_it_off_and_no_other(wire: Wire) -> None:
    """S000-6."""
    gate = Gate()
    slow, silent, good = [Wait(gate), Say("hel"), Hang()], [Say("hel"), Hang()], [Say("hello")]
    async with line_of(wire, slow, silent, good) as (line, _):
        line.patient(first_event_s=0, gap_s=SHORT_S)
        task = line.start()
        await gate.reached()
        await wait_through_cancel(SHORT_S)
        assert line.told.failures == [], "nothing has passed yet"
        gate.open()
        assert isinstance(await task, Answer)
        assert line.told.close_reasons == ["stream_idle_kill", "stream_idle_kill"]
        assert line.told.text == "hello"


@on_each_wire
async def test_with_zero_silence_is_still_bounded_by_first_progress(wire: Wire) -> None:
    """S000-6, P3: no wait is endless."""
    async with line_of(wire, [Hang()], [Say("hello")]) as (line, _):
        line.patient(first_event_s=0, first_progress_s=SHORT_S)
        assert isinstance(await line.ask(), Answer)
        (failure,) = line.told.failures
        assert failure.kind == "stalled"
        assert f"no first byte in {SHORT_S:g} s, the first-event watchdog is off" in failure.text


@on_each_wire
async def test_a_long_request_with_a_slow_first_byte_is_waited_for(wire: Wire) -> None:
    """S000-7."""
    gate = Gate()
    async with line_of(wire, [Wait(gate), Say("hello")]) as (line, server):
        line.patient(first_event_s=SHORT_S)
        task = line.start(request_of(LONG))
        await gate.reached()
        await wait_through_cancel(SHORT_S)
        gate.open()
        assert isinstance(await task, Answer)
        assert line.told.text == "hello"
        assert line.told.failures == []
        assert server.seen.requests_seen == 1
        assert server.seen.request(1).upload_bytes > len(LONG)


@on_each_wire
async def test_strict_cuts_a_long_request_too(wire: Wire) -> None:
    """S000-8."""
    async with line_of(wire, [Hang()], [Say("hello")]) as (line, _):
        line.patient(first_event_s=SHORT_S, strict=True)
        assert isinstance(await line.ask(request_of(LONG)), Answer)
        (failure,) = line.told.failures
        assert f"TTFB threshold: {SHORT_S:g}s" in failure.text


@on_each_wire
async def test_the_default_is_45_seconds_for_a_remote_target_and_300_for_a_local_one(wire: Wire) -> None:
    """S001-1."""
    async with ChaosServer([Say("a")], [Say("b")], [Say("c")]) as server:
        remote = target_of(server, wire, base_url="http://api.example.com/v1")
        local = target_of(server, wire)
        async with line_to(remote, resolver=Names({"api.example.com": server.port})) as line:
            await line.ask()
            line.targets = (local,)
            await line.ask()
            line.targets = (remote,)
            await line.ask(request_of(LONG))
            shown = [event.first_event_s for event in line.told.of(e.AttemptStarted)]
            assert shown == [45, 300, 50]


@for_each_row("pieces", ["reasoning", "arguments"])
@on_each_wire
async def test_turns_without_text_are_no_stall(wire: Wire, pieces: str) -> None:
    """S001-2: many pieces, each well within the gap, all together beyond it."""
    said = "a long chain of thought, in all"
    slow = Think(said, chunk_chars=1, pace_s=0.02)
    call = CallTool("look", {"at": said[:20]}, id="c1", chunk_chars=1, pace_s=0.02)
    script = [slow, CallTool("look", {}, id="c1")] if pieces == "reasoning" else [call]
    async with line_of(wire, script) as (line, _):
        line.patient(first_event_s=0.5, first_progress_s=0.5, gap_s=0.5)
        answer = await line.ask()
        assert isinstance(answer, Answer)
        assert answer.finish == "tools"
        assert line.told.failures == []
        assert len(line.told.of(e.ToolAsked)) == 1
