"""Answers in one body: their first byte comes when all is written, so their patience is another."""

import asyncio

import pytest
from openai import RateLimitError

from guard.ways import (
    LONG_S,
    RETRIED_S,
    SOON_S,
    WHOLE,
    Way,
    caught,
    client,
    each,
    packages,
    was_cut,
    whole_chat,
    whole_responses,
)
from holdfast import guard
from holdfast.chaos import (
    ChaosServer,
    Hang,
    Headers,
    KeepAlive,
    Pause,
    Raw,
    Say,
    Script,
    rate_limited,
)


async def test_an_answer_may_take_longer_than_the_first_event_of_a_stream() -> None:
    guarded = client(first_event_s=SOON_S, gap_s=LONG_S)
    script = [Pause(2 * SOON_S), Say("hello")]
    async with ChaosServer(script, after_last="repeat") as chaos, packages(chaos, guarded) as ask:
        assert await asyncio.gather(*(way(ask) for way in WHOLE)) == ["hello"] * 3


async def test_an_answer_that_does_not_come_is_cut() -> None:
    async def cut(way: Way) -> None:
        async with ChaosServer([Hang()]) as chaos, packages(chaos, client(unstreamed_s=SOON_S)) as ask:
            error = await caught(way(ask))
            assert isinstance(error, guard.NoFirstEvent)
            assert str(error) == "127.0.0.1: no first byte in 0.2 s (TTFB threshold: 0.2s)"
            assert await was_cut(chaos)

    await each(WHOLE, cut)


async def test_the_package_retries_what_was_cut() -> None:
    async def retried(script: Script) -> None:
        guarded = client(unstreamed_s=RETRIED_S, gap_s=SOON_S)
        async with ChaosServer(script, [Say("hello")]) as chaos, packages(chaos, guarded, retries=1) as ask:
            assert await whole_responses(ask) == "hello"
            assert chaos.seen.requests_seen == 2
            assert await was_cut(chaos)

    await asyncio.gather(
        retried([Hang()]),
        retried([Headers(), Hang()]),
        retried([KeepAlive()]),
        retried([Headers(), Raw('{"id":'), Hang()]),
    )


async def test_thinking_patience_is_for_whole_answers_too() -> None:
    async with ChaosServer([Hang()]) as chaos, packages(chaos, client(first_progress_s=SOON_S)) as ask:
        error = await caught(whole_chat(ask))
        assert error.deadline is not None
        assert (error.deadline.kind, error.deadline.patience_s) == ("first_event", SOON_S)


async def test_an_error_of_the_provider_stays_the_error_of_the_package() -> None:
    async with ChaosServer([rate_limited()]) as chaos, packages(chaos, client()) as ask:
        with pytest.raises(RateLimitError):
            await whole_chat(ask)


async def test_a_connection_is_used_again() -> None:
    guarded = client(unstreamed_s=RETRIED_S)
    async with ChaosServer([Say("a")], [Say("b")], [Hang()]) as chaos, packages(chaos, guarded) as ask:
        assert [await whole_chat(ask), await whole_responses(ask)] == ["a", "b"]
        assert isinstance(await caught(whole_chat(ask)), guard.NoFirstEvent)
        assert chaos.seen.connections_seen == 1
        assert await was_cut(chaos, 3)
