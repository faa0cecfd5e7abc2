"""Sending a request: what counts as sent, what is cut, and what an early answer is worth."""

import asyncio

from holdfast import events as e
from holdfast.chaos import (
    ChaosOptions,
    ChaosServer,
    Gate,
    Hang,
    ReadOnly,
    ReadRest,
    ReadSlowly,
    Say,
    Wait,
    too_large,
)
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.targets import Patience, RetryLimits, Wire
from side_by_side import on_each_wire
from tables import for_each_row

from .calling import line_of, line_to, request_of, target_of, wait_through_cancel

LARGE = "x" * 8_000_000
GOOD = [Say("hello")]
WIRE: Wire = "chat"  # sending is the same for all of them
SMALL_BUFFER = ChaosOptions(receive_buffer_bytes=4096)
HUGE = 10_000_000  # a window that no request of these tests fills
# A kernel with a small buffer pauses for a fifth of a second now and then, so a good upload through it has a
# whole second; this one takes two.
SLOWLY = ReadSlowly(bytes_per_s=500_000, piece_bytes=20_000)
ONCE = RetryLimits(attempts_per_target_max=1)  # the next target takes the request from whoever stalls


@on_each_wire
async def test_an_upload_that_is_hardly_read_is_cut(wire: Wire) -> None:
    """Scenario 4, P3: the kernel swallows megabytes, and still the request counts as not sent."""
    async with (
        ChaosServer([ReadSlowly(10)], options=SMALL_BUFFER) as server,
        ChaosServer([ReadRest(), Say("hello")]) as other,
    ):
        short = Patience(upload_s=0.25)
        target = target_of(server, wire, context_window=HUGE, patience=short, retry=ONCE)
        async with line_to(target, target_of(other, wire, "other", context_window=HUGE)) as line:
            task = line.start(request_of(LARGE))
            assert "switches to other at 0.25 s" in await line.told.until_line(
                "sending the request to main-model"
            )
            assert isinstance(await task, Answer)
            (failed,) = line.told.of(e.AttemptFailed)
            assert failed.failure.kind == "upload_stalled"
            assert failed.close_reason == "upload_kill"
            assert "no byte of the request accepted for 0.25 s" in failed.failure.text
            assert await server.seen.until_closed(1) in {"peer", "peer reset"}
            assert server.seen.request(1).upload_bytes < 1_000_000
            assert other.seen.request(1).upload_bytes > len(LARGE)


async def test_a_small_request_that_only_the_kernel_has_taken_is_not_sent() -> None:
    """Scenario 4: half a megabyte fits into the buffers of both kernels, or nearly so."""
    hung = [ReadOnly(100), Hang()]
    async with ChaosServer(hung, options=SMALL_BUFFER) as server, ChaosServer(GOOD) as other:
        short = Patience(upload_s=0.3, first_event_s=9)
        target = target_of(server, WIRE, context_window=HUGE, patience=short, retry=ONCE)
        async with line_to(target, target_of(other, WIRE, "other", context_window=HUGE)) as line:
            assert isinstance(await line.ask(request_of("x" * 500_000)), Answer)
            assert line.told.close_reasons == ["upload_kill"]


async def test_a_slow_upload_that_advances_is_not_cut() -> None:
    """Scenario 3: a stream that makes progress is never killed, in either direction.

    S000-1: nor does it take anything off the patience for the answer. Both at once, for each takes seconds.
    """
    for_the_answer = Patience(upload_s=20, first_event_s=1, strict=True)
    await asyncio.gather(sent_slowly(Patience(upload_s=1)), sent_slowly(for_the_answer))


async def sent_slowly(patience: Patience) -> None:
    async with ChaosServer([SLOWLY, Say("hello")], options=SMALL_BUFFER) as server:
        target = target_of(server, WIRE, context_window=HUGE, patience=patience)
        async with line_to(target) as line:
            assert isinstance(await line.ask(request_of("x" * 1_000_000)), Answer), patience
            assert line.told.failures == [], patience


@for_each_row("read", [[ReadOnly(1000)], [ReadOnly(1000), ReadOnly(200_000)]])
async def test_an_early_413_is_heard_during_the_upload(read: list[ReadOnly]) -> None:
    """Scenario 4: the refusal comes while we are still sending."""
    async with line_of(WIRE, [*read, too_large(), ReadRest()], context_window=HUGE) as (line, server):
        ended = await line.ask(request_of(LARGE))
        assert isinstance(ended, NoAnswer)
        assert ended.failure.kind == "payload_too_large"
        assert server.seen.requests_seen == 1


async def test_an_early_413_with_a_close_behind_it_is_heard_too() -> None:
    """Scenario 4: the close of a peer that has not read everything resets the connection."""
    async with line_of(WIRE, *([[ReadOnly(100_000), too_large()]] * 3), context_window=HUGE) as (
        line,
        server,
    ):
        ended = await line.ask(request_of(LARGE))
        assert isinstance(ended, NoAnswer)
        assert ended.failure.kind == "payload_too_large"
        assert server.seen.requests_seen == 1


async def test_an_answer_that_begins_before_the_request_is_sent_is_an_answer() -> None:
    """P4."""
    gate = Gate()
    script = [ReadOnly(1000), Say("hel"), Wait(gate), ReadRest(), Say("lo")]
    async with ChaosServer(script, options=SMALL_BUFFER) as server:
        patience = Patience(upload_s=1, first_event_s=1, gap_s=30)
        target = target_of(server, WIRE, context_window=HUGE, patience=patience)
        async with line_to(target) as line:
            task = line.start(request_of("x" * 2_000_000))
            await gate.reached()
            await line.told.until_line("is answering")
            await wait_through_cancel(1)
            gate.open()
            assert isinstance(await task, Answer)
            assert line.told.text == "hello"
            assert line.told.failures == []
