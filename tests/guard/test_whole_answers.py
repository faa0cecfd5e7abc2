"""Answers in one body: their first byte comes when all is written, so their patience is another."""

import pytest
from openai import RateLimitError

from guard.ways import LONG_S, RETRIED_S, SOON_S, WHOLE, Way, caught, packages, whole_chat, whole_responses
from holdfast import guard
from holdfast.chaos import (
    ChaosServer,
    ClosedBy,
    Hang,
    Headers,
    KeepAlive,
    Pause,
    Raw,
    Say,
    Script,
    rate_limited,
)

ways = pytest.mark.parametrize("way", WHOLE, ids=lambda way: way.__name__)


@ways
async def test_an_answer_may_take_longer_than_the_first_event_of_a_stream(way: Way) -> None:
    client = guard.client(first_event_s=SOON_S, gap_s=LONG_S)
    async with ChaosServer([Pause(2 * SOON_S), Say("hello")]) as chaos, packages(chaos, client) as ask:
        assert await way(ask) == "hello"


@ways
async def test_an_answer_that_does_not_come_is_cut(way: Way) -> None:
    async with ChaosServer([Hang()]) as chaos, packages(chaos, guard.client(unstreamed_s=SOON_S)) as ask:
        error = await caught(way(ask))
        assert isinstance(error, guard.NoFirstEvent)
        assert str(error) == "127.0.0.1: no first byte in 0.2 s (TTFB threshold: 0.2s)"
        assert await chaos.seen.until_closed(1) is ClosedBy.PEER


@pytest.mark.parametrize(
    "script",
    [[Hang()], [Headers(), Hang()], [KeepAlive()], [Headers(), Raw('{"id":'), Hang()]],
    ids=["no head", "no body", "white space", "half a body"],
)
async def test_the_package_retries_what_was_cut(script: Script) -> None:
    client = guard.client(unstreamed_s=RETRIED_S, gap_s=SOON_S)
    async with ChaosServer(script, [Say("hello")]) as chaos, packages(chaos, client, retries=1) as ask:
        assert await whole_responses(ask) == "hello"
        assert chaos.seen.requests_seen == 2
        assert await chaos.seen.until_closed(1) is ClosedBy.PEER


async def test_thinking_patience_is_for_whole_answers_too() -> None:
    async with ChaosServer([Hang()]) as chaos, packages(chaos, guard.client(first_progress_s=SOON_S)) as ask:
        error = await caught(whole_chat(ask))
        assert error.deadline is not None
        assert (error.deadline.kind, error.deadline.patience_s) == ("first_event", SOON_S)


async def test_an_error_of_the_provider_stays_the_error_of_the_package() -> None:
    async with ChaosServer([rate_limited()]) as chaos, packages(chaos, guard.client()) as ask:
        with pytest.raises(RateLimitError):
            await whole_chat(ask)


async def test_a_connection_is_used_again() -> None:
    client = guard.client(unstreamed_s=RETRIED_S)
    async with ChaosServer([Say("a")], [Say("b")], [Hang()]) as chaos, packages(chaos, client) as ask:
        assert [await whole_chat(ask), await whole_responses(ask)] == ["a", "b"]
        assert isinstance(await caught(whole_chat(ask)), guard.NoFirstEvent)
        assert chaos.seen.connections_seen == 1
        assert await chaos.seen.until_closed(3) is ClosedBy.PEER
