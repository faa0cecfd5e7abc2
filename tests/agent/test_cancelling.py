"""A run that is cancelled more than once: what it began is over before it is."""

import asyncio
from typing import Any

import pytest

from agent.world import ending, process, send
from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.interfaces.model import EventSink


async def test_a_call_that_is_slow_to_end_is_waited_for_however_often_its_run_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P4, P5: the server may end while a stop is under way, and nothing is said behind the run's ending."""
    begun, told, over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(_self: object, _request: object, sink: EventSink, **_rest: Any) -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            told.set()
            await over.wait()
            sink.emit(e.CallStarted(at_ms=1, run_id=sink.run_id, call_id="last words", turn=0))

    monkeypatch.setattr("holdfast.models.call.ModelCalls.answer", slow)
    async with ChaosServer() as chaos, process(chaos) as world:
        run_id = await send(world)
        await begun.wait()
        assert await world.inbox.stop("s", run_id)
        await told.wait()
        (run,) = [task for task in asyncio.all_tasks() if task.get_name() == f"run {run_id}"]
        run.cancel("shutdown")
        for _ in range(100):
            await asyncio.sleep(0)
        over.set()
        log = await world.until("s", e.RunEnded)
        assert ending(log).cause == "user_stop"
        assert any(isinstance(record.event, e.CallStarted) for record in log)
