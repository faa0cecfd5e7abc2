"""A caller who goes away: the connection is closed at once, and nothing of the guard is left."""

import asyncio
import gc
import itertools
import weakref
from collections.abc import Awaitable

import anyio
import pytest

from fakes.cancel import CancelAt
from guard.ways import LONG_S, Way, client, packages, responses, was_cut, whole_chat
from holdfast.chaos import ChaosServer, Gate, Hang, Headers, OpenItem, Say, Script, Wait
from holdfast.decisions.deadlines import RequestFacts, effective
from holdfast.guard.waits import DeadlineWatch
from holdfast.targets import Patience

PLACES: dict[str, Script] = {
    "waiting": [Hang()],
    "head": [Headers(), Hang()],
    "streaming": [Say("hel"), Hang()],
    "thinking": [Say("hel"), OpenItem("thinking"), Hang()],
}


@pytest.mark.parametrize("way", [responses, whole_chat], ids=lambda way: way.__name__)
async def test_a_cancel_at_any_await_closes_the_connection_and_leaves_no_task(way: Way) -> None:
    for nth in itertools.count(1):
        async with ChaosServer([Say("hello")]) as chaos, packages(chaos, client()) as ask:
            attempt = CancelAt(_asked(way(ask)), nth)
            task = await attempt.in_own_task()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            assert not [other for other in others if "guard" in repr(other)]
        if not attempt.reached:
            assert task.result() == "hello"
            assert nth > 5
            break
        assert task.cancelled()


async def _asked(asking: Awaitable[str]) -> str:
    return await asking


@pytest.mark.parametrize("place", PLACES)
async def test_a_cancel_is_a_cancel_and_no_failure(place: str) -> None:
    gate = Gate()
    script = [*PLACES[place][:-1], Wait(gate)]
    async with ChaosServer(script) as chaos, packages(chaos, client(), retries=1) as ask:
        task = asyncio.create_task(responses(ask))
        await gate.reached()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await was_cut(chaos)
        assert chaos.seen.requests_seen == 1


async def test_a_cancel_scope_of_anyio_works_through_the_guard() -> None:
    gate = Gate()
    async with ChaosServer([Say("hel"), Wait(gate)]) as chaos, packages(chaos, client()) as ask:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(responses, ask)
                await gate.reached()
                scope.cancel()
        assert scope.cancelled_caught
        assert await was_cut(chaos)


async def test_a_stream_that_is_left_early_closes_its_connection() -> None:
    async with ChaosServer([Say("a"), Hang()]) as chaos, packages(chaos, client()) as ask:
        stream = await ask.openai.responses.create(model="m", input="hi", stream=True)
        async for event in stream:
            if event.type == "response.output_text.delta":
                break
        await stream.close()
        assert await was_cut(chaos)


async def test_a_response_that_is_closed_unread_closes_its_connection() -> None:
    guarded = client()
    async with ChaosServer([Say("a"), Hang()]) as chaos, guarded:
        request = guarded.build_request("POST", f"{chaos.base_url}/responses", json={"stream": True})
        response = await guarded.send(request, stream=True)
        await response.aclose()
        assert await was_cut(chaos)


async def test_nothing_holds_a_watch_whose_wait_was_ended() -> None:
    deadlines = effective(Patience(connect_s=LONG_S), RequestFacts(local=True, input_tokens=0))
    watch = DeadlineWatch(deadlines, before_kill=lambda _: None)
    waiting = asyncio.create_task(watch.wait(asyncio.get_running_loop().create_future()))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    left = weakref.ref(watch)
    del watch, waiting
    gc.collect()
    assert left() is None
