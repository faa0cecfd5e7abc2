"""Cancelling a call: in every state the upstream sees the close, and nothing happens afterwards."""

import asyncio
from itertools import count

import pytest

from fakes.cancel import CancelAt
from holdfast import events as e
from holdfast.chaos import (
    CallTool,
    ChaosOptions,
    ChaosServer,
    Drop,
    Gate,
    Hang,
    ReadOnly,
    Say,
    SayWords,
    Step,
    Wait,
    rate_limited_s,
    server_error,
    silent_port,
)
from holdfast.interfaces.model import Answer
from holdfast.targets import Patience, Target, Wire
from side_by_side import on_each_wire
from tables import for_each_row

from .calling import Told, ended_by, line_of, line_to, nothing_left, request_of, target_of

GOOD = [Say("hello")]
WIRE: Wire = "responses"
SMALL_BUFFER = ChaosOptions(receive_buffer_bytes=4096)

STATES: dict[str, tuple[list[list[Step]], str]] = {
    "waiting": ([[Hang()]], "waiting for"),
    "streaming": ([[Say("hel"), Hang()]], "is answering"),
    "backing off": ([[server_error()]], "retrying in"),
    "gated": ([[rate_limited_s(600)]], "retrying in"),
}


async def still_one_request(server: ChaosServer) -> None:
    """A further request would be here by now: one that is made after the cancel has come."""
    before = server.seen.requests_seen
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")
    await server.seen.until_request(before + 1)
    writer.close()
    await writer.wait_closed()
    assert server.seen.requests_seen == before + 1 == 2


@pytest.mark.parametrize("state", STATES)
async def test_cancel_closes_the_connection_and_nothing_follows(wire: Wire, state: str) -> None:
    """Scenario 5, S003-1, P5."""
    scripts, words = STATES[state]
    async with line_of(wire, *scripts, GOOD) as (line, server):
        line.clock.held = Gate()
        task = line.start()
        await line.told.until_line(words)
        await server.seen.until_body(1)
        await ended_by(task, "user_stop")
        if state in {"waiting", "streaming"}:
            assert await server.seen.until_closed(1) in {"peer", "peer reset"}
            (failed,) = line.told.of(e.AttemptFailed)
            assert (failed.failure.kind, failed.close_reason) == ("cancelled", "cancel")
            assert failed.failure.text == "stopped: user_stop", "the cause, never a network error"
            assert failed.failure.rule == "cancelled"
        else:
            assert "cancelled" not in line.told.kinds, "no attempt was open"
        assert line.told.live is None
        await nothing_left()
        await still_one_request(server)


async def test_cancel_while_connecting() -> None:
    """Scenario 5, P5: a peer that neither accepts nor refuses."""
    with silent_port() as port:
        target = Target(name="main", wire=WIRE, base_url=f"http://127.0.0.1:{port}/v1", model="m")
        async with line_to(target) as line:
            task = line.start()
            await line.told.until_line("connecting to m")
            await asyncio.sleep(0)
            await ended_by(task, "user_stop")
            assert line.told.kinds == ["cancelled"]
            await nothing_left()


async def test_cancel_while_uploading_throws_away_what_is_unsent() -> None:
    """Scenario 5, P5: megabytes in the kernel do not keep the connection open."""
    async with ChaosServer([ReadOnly(1000), Hang()], options=SMALL_BUFFER) as server:
        target = target_of(server, WIRE, context_window=10_000_000)
        async with line_to(target) as line:
            task = line.start(request_of("x" * 8_000_000))
            await line.told.until_line("sending the request")
            await server.seen.until_request(1)
            await ended_by(task, "user_stop")
            assert await server.seen.until_closed(1) == "peer reset"
            assert line.told.kinds == ["cancelled"]
            await nothing_left()


@for_each_row("megabytes", [0.3, 1.0])
async def test_cancel_while_the_kernel_still_holds_the_request(megabytes: float) -> None:
    """Scenario 5, P5: everything is written, nothing is taken."""
    async with ChaosServer([ReadOnly(1000), Hang()], options=SMALL_BUFFER) as server:
        target = target_of(server, WIRE, context_window=10_000_000)
        async with line_to(target) as line:
            task = line.start(request_of("x" * int(1_000_000 * megabytes)))
            await server.seen.until_request(1)
            await line.told.until_line("sending the request")
            await ended_by(task, "user_stop")
            assert await server.seen.until_closed(1) == "peer reset"


@on_each_wire
async def test_the_next_run_is_judged_on_its_own(wire: Wire) -> None:
    """S003-3: after a stopped call a real drop in the next one is a network failure, and is retried."""
    async with line_of(wire, [Say("hel"), Hang()], [Say("hel"), Drop()], GOOD) as (line, server):
        task = line.start(sink=line.another_voice())
        await server.seen.until_body(1)
        await ended_by(task, "user_stop")
        assert isinstance(await line.ask(), Answer)
        assert line.told.kinds == ["dropped"]
        assert line.told.text == "hello"
        assert server.seen.requests_seen == 3


@on_each_wire
async def test_a_drop_that_comes_with_the_cancel_is_a_cancel(wire: Wire) -> None:
    """S003-1: both at once, and it is the type that decides."""
    gate = Gate()
    async with line_of(wire, [Say("hel"), Wait(gate), Drop()], GOOD) as (line, server):
        task = line.start()
        await gate.reached()
        await line.told.until_line("is answering")
        gate.open()
        await ended_by(task, "user_stop")
        assert line.told.kinds == ["cancelled"]
        assert server.seen.requests_seen == 1


async def check_cancelled(server: ChaosServer, told: Told) -> None:
    """What must hold after a cancel, wherever it came."""
    await nothing_left()
    assert told.live is None
    started = {event.attempt_id for event in told.of(e.AttemptStarted)}
    ended = {event.attempt_id for event in told.of(e.AttemptFailed)}
    complete = bool(told.of(e.Usage)) or bool(told.of(e.ToolAsked))
    assert started == ended or complete, "an attempt is left open"
    cancelled = [event for event in told.of(e.AttemptFailed) if event.failure.kind == "cancelled"]
    assert all(event.close_reason == "cancel" for event in cancelled)
    assert len(cancelled) <= 1
    told.log()
    busy = [
        seen
        for seen in server.seen.requests
        if seen.ended_s is None and seen.connection.closed_s is None and not complete
    ]
    for seen in busy:
        await server.seen.until_closed(seen.number)


SCRIPTS: dict[str, list[list[Step]]] = {
    "an answer": [[SayWords("one two three"), CallTool("look", {"at": "it"})]],
    "a retry": [[Say("hel"), Drop()], [server_error()], [Say("hello")]],
    "a gate": [[rate_limited_s(600)], [Say("hello")]],
    "a cut": [[Say("hel"), Hang()], [Say("hello")]],
}


@for_each_row("script", SCRIPTS)
async def test_cancel_at_every_suspension(script: str) -> None:
    """P5: no task, no socket, no attempt left open; the cancel always gets through."""
    nth = 0
    for nth in count(1):
        # Only what is to be cut is cut soon: a busy machine must not make a stall of anything else.
        patience = Patience(gap_s=0.25 if script == "a cut" else 20)
        async with line_of(WIRE, *SCRIPTS[script], patience=patience) as (line, server):
            told = line.told
            call = CancelAt(line.calls.answer(request_of(), told, turn=1), nth)
            task = await call.in_own_task()
            if not call.reached:
                assert isinstance(task.result(), Answer)
                break
            assert task.cancelled(), f"the cancel at suspension {nth} was lost"
            await check_cancelled(server, told)
    assert nth > 3


async def test_cancel_at_every_suspension_of_an_upload() -> None:
    """P5."""
    for nth in count(1):
        async with line_of(WIRE, GOOD, context_window=10_000_000) as (line, server):
            request = request_of("x" * 3_000_000)
            call = CancelAt(line.calls.answer(request, line.told, turn=1), nth)
            task = await call.in_own_task()
            if not call.reached:
                break
            assert task.cancelled()
            await check_cancelled(server, line.told)


async def test_an_impatient_caller_who_cancels_twice_leaves_nothing_either() -> None:
    """P5."""
    for nth in count(1):
        async with line_of(WIRE, *SCRIPTS["an answer"]) as (line, server):
            call = CancelAt(line.calls.answer(request_of(), line.told, turn=1), nth, nth + 1)
            task = await call.in_own_task()
            if call.suspensions < nth:
                break
            assert task.cancelled()
            await check_cancelled(server, line.told)
