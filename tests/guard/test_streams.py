"""Streams through the real packages: what is silent is cut with a typed error, what works is left alone."""

import asyncio

import httpx2
import pytest
from anthropic import APIConnectionError

from guard.ways import (
    LONG_S,
    RETRIED_S,
    SOON_S,
    STREAMED,
    Way,
    caught,
    chat,
    client,
    each,
    messages,
    packages,
    responses,
    was_cut,
)
from holdfast import guard
from holdfast.chaos import (
    Begin,
    ChaosServer,
    Drop,
    EndOfBody,
    Finish,
    Gate,
    Hang,
    Headers,
    KeepAlive,
    Lifecycle,
    OpenItem,
    Pause,
    Say,
    SayInTwoWrites,
    Script,
    Think,
    Wait,
)

ways = pytest.mark.parametrize("way", STREAMED, ids=lambda way: way.__name__)


@ways
async def test_an_answer_passes(way: Way) -> None:
    script = [Think("so", chunk_chars=1), Say("hello, ", chunk_chars=2), SayInTwoWrites("naïve")]
    async with ChaosServer(script) as chaos, packages(chaos, client(gap_s=LONG_S)) as ask:
        assert await way(ask) == "hello, naïve"


async def test_the_package_retries_by_itself_what_was_cut_before_its_first_event() -> None:
    async def retried(way: Way, script: Script) -> None:
        async with (
            ChaosServer(script, [Say("hello")]) as chaos,
            packages(chaos, client(first_event_s=RETRIED_S), retries=1) as ask,
        ):
            assert await way(ask) == "hello"
            assert chaos.seen.requests_seen == 2
            assert await was_cut(chaos)

    await asyncio.gather(
        retried(responses, [Hang()]),
        retried(chat, [Hang()]),
        retried(messages, [Hang()]),
        retried(responses, [Headers(), Hang()]),
        retried(chat, [KeepAlive()]),
    )


async def test_the_package_retries_by_itself_a_stream_that_ended_before_its_first_event() -> None:
    async with (
        ChaosServer([Headers(), EndOfBody()], [Say("hello")]) as chaos,
        packages(chaos, client(), retries=1) as ask,
    ):
        assert await chat(ask) == "hello"
        assert chaos.seen.requests_seen == 2


async def test_no_first_byte_says_so_in_the_words_that_operators_search_for() -> None:
    async def cut(way: Way) -> None:
        async with ChaosServer([Hang()]) as chaos, packages(chaos, client(first_event_s=SOON_S)) as ask:
            error = await caught(way(ask))
            assert isinstance(error, guard.NoFirstEvent)
            assert isinstance(error, httpx2.ReadTimeout)
            assert str(error) == "127.0.0.1: no first byte in 0.2 s (TTFB threshold: 0.2s)"
            assert (error.failure.kind, error.close_reason) == ("no_first_event", "ttfb_kill")
            assert error.deadline is not None
            assert (error.deadline.kind, error.deadline.patience_s) == ("first_event", SOON_S)
            assert await was_cut(chaos)

    await each(STREAMED, cut)


async def test_without_awaiting_the_first_event_the_package_gets_the_head_at_once() -> None:
    guarded = client(first_event_s=SOON_S, await_first_event=False)
    async with ChaosServer([Headers(), Hang()]) as chaos, packages(chaos, guarded, retries=1) as ask:
        error = await caught(responses(ask))
        assert isinstance(error, guard.NoFirstEvent)
        assert chaos.seen.requests_seen == 1


@pytest.mark.parametrize(
    "script",
    [[Begin(), Hang()], [Begin(), KeepAlive()], [Begin(), Lifecycle(1000, pace_s=0.05)]],
    ids=["silence", "keep-alives", "lifecycle"],
)
async def test_signs_of_life_are_no_progress(script: Script) -> None:
    async def cut(way: Way) -> None:
        guarded = client(first_event_s=LONG_S, first_progress_s=SOON_S, gap_s=LONG_S)
        async with ChaosServer(script) as chaos, packages(chaos, guarded, retries=1) as ask:
            error = await caught(way(ask))
            assert isinstance(error, guard.Stalled)
            assert str(error) == "127.0.0.1: no events for 0.2 s after first byte"
            assert (error.failure.kind, error.close_reason) == ("stalled", "stream_idle_kill")
            assert await was_cut(chaos)
            assert chaos.seen.requests_seen == 1

    await each(STREAMED, cut)


@pytest.mark.parametrize("silence", [Hang(), KeepAlive()], ids=["silence", "keep-alives"])
async def test_a_stream_that_stops_in_the_middle_is_cut(silence: Hang | KeepAlive) -> None:
    async def cut(way: Way) -> None:
        guarded = client(first_progress_s=LONG_S, gap_s=SOON_S)
        async with ChaosServer([Say("hel"), silence]) as chaos, packages(chaos, guarded) as ask:
            error = await caught(way(ask))
            assert isinstance(error, guard.Stalled)
            assert error.deadline is not None
            assert error.deadline.kind == "gap"
            assert await was_cut(chaos)

    await each(STREAMED, cut)


async def test_a_steady_stream_may_last_longer_than_every_deadline() -> None:
    text = "slow, steady, and for long"
    guarded = client(first_event_s=1, first_progress_s=1, gap_s=1)
    script = [Say(text, chunk_chars=1, pace_s=0.05)]
    async with ChaosServer(script, after_last="repeat") as chaos, packages(chaos, guarded) as ask:
        assert await asyncio.gather(*(way(ask) for way in STREAMED)) == [text] * 3


async def test_silent_thinking_in_an_opened_item_is_healthy() -> None:
    guarded = client(first_progress_s=LONG_S, gap_s=SOON_S)
    script = [Think("first"), OpenItem("thinking"), Pause(3 * SOON_S), Say("hello")]
    async with ChaosServer(script, after_last="repeat") as chaos, packages(chaos, guarded) as ask:
        assert await asyncio.gather(responses(ask), messages(ask)) == ["hello"] * 2


async def test_the_time_of_a_slow_reader_is_not_the_peers() -> None:
    guarded = client(first_progress_s=LONG_S, gap_s=SOON_S)
    async with ChaosServer([Say("a"), Say("b"), Say("c")]) as chaos, packages(chaos, guarded) as ask:
        stream = await ask.openai.responses.create(model="m", input="hi", stream=True)
        await anext(stream)
        reads_on = asyncio.Event()
        asyncio.get_running_loop().call_later(2 * SOON_S, reads_on.set)
        await reads_on.wait()
        assert [event.delta async for event in stream if event.type == "response.output_text.delta"] == [
            *"abc"
        ]


@ways
async def test_without_the_guard_the_package_is_still_waiting(way: Way) -> None:
    gate = Gate()
    unguarded = httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(verify=False), timeout=600)
    script = [Say("hel"), KeepAlive(times=20, pace_s=0.01), Wait(gate)]
    async with ChaosServer(script) as chaos, packages(chaos, unguarded) as ask:
        asking = asyncio.ensure_future(way(ask))
        await gate.reached()
        assert not asking.done()
        assert chaos.seen.request(1).ended_s is None
        gate.open()
        assert await asking == "hel"


@ways
async def test_a_dropped_connection_is_never_an_answer(way: Way) -> None:
    for script in ([Say("hel"), Drop()], [Drop()]):
        async with ChaosServer(script) as chaos, packages(chaos, client()) as ask:
            error = await caught(way(ask))
            assert isinstance(error, guard.Reset)
            assert isinstance(error, httpx2.ReadError)
            assert (error.failure.kind, error.close_reason, error.deadline) == ("dropped", "peer", None)
            assert "127.0.0.1: the connection was reset" in str(error)


async def test_the_anthropic_package_wraps_what_happens_before_its_stream_and_nothing_after() -> None:
    """What the documentation says about it; a version that wraps more changes these words."""
    for script, wrapped in (
        ([Drop()], True),
        ([Say("hel"), Drop()], False),
        ([Say("hel"), EndOfBody()], False),
    ):
        async with ChaosServer(script) as chaos, packages(chaos, client()) as ask:
            with pytest.raises((APIConnectionError, guard.GuardError)) as raised:
                await messages(ask)
            assert isinstance(raised.value, APIConnectionError) is wrapped
            assert guard.cause_of(raised.value) is not None


@ways
async def test_a_clean_end_without_the_marker_is_never_an_answer(way: Way) -> None:
    async with ChaosServer([Say("hel"), EndOfBody()]) as chaos, packages(chaos, client()) as ask:
        error = await caught(way(ask))
        assert isinstance(error, guard.Dropped)
        assert isinstance(error, httpx2.RemoteProtocolError)
        assert (error.failure.kind, error.close_reason, error.deadline) == ("dropped", "peer", None)
        assert "without its terminal marker" in str(error)


@ways
async def test_unless_it_is_required_the_packages_take_half_an_answer_for_a_whole_one(way: Way) -> None:
    guarded = client(require_terminal_marker=False)
    async with ChaosServer([Say("hel"), EndOfBody()]) as chaos, packages(chaos, guarded) as ask:
        assert await way(ask) == "hel"


async def test_a_chat_answer_may_end_without_its_done_line() -> None:
    async with (
        ChaosServer([Say("hello"), Finish(done="missing")]) as chaos,
        packages(chaos, client()) as ask,
    ):
        assert await chat(ask) == "hello"


@ways
async def test_how_the_connection_ends_takes_nothing_from_a_whole_answer(way: Way) -> None:
    async with ChaosServer([Say("hello"), Finish(), Drop()]) as chaos, packages(chaos, client()) as ask:
        assert await way(ask) == "hello"


async def test_a_whole_answer_whose_body_does_not_end_is_ended() -> None:
    async def ended(way: Way) -> None:
        guarded = client(tail_s=SOON_S)
        async with ChaosServer([Say("hello"), Finish(), Hang()]) as chaos, packages(chaos, guarded) as ask:
            assert await way(ask) == "hello"
            assert await was_cut(chaos)

    await each([responses, messages], ended)
