"""A run that is cancelled more than once: what it began is over before it is."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from agent.world import ending, process, send
from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.interfaces.model import EventSink


@dataclass(frozen=True, slots=True)
class SlowToEnd:
    """A model whose call takes its time to end, and says something at last."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    told: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: object, sink: EventSink, **rest: Any) -> Any:
        del request, rest
        self.begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.told.set()
            await self.over.wait()
            sink.emit(e.CallStarted(at_ms=1, run_id=sink.run_id, call_id="last words", turn=0))


async def test_a_call_that_is_slow_to_end_is_waited_for_however_often_its_run_is_cancelled() -> None:
    """P4, P5: the server may end while a stop is under way, and nothing is said behind the run's ending."""
    model = SlowToEnd()
    async with ChaosServer() as chaos, process(chaos, model=model) as world:
        run_id = await send(world)
        await model.begun.wait()
        assert await world.inbox.stop("s", run_id)
        await model.told.wait()
        (run,) = [task for task in asyncio.all_tasks() if task.get_name() == f"run {run_id}"]
        run.cancel("shutdown")
        for _ in range(100):
            await asyncio.sleep(0)
        model.over.set()
        log = await world.until("s", e.RunEnded)
        assert ending(log).cause == "user_stop"
        assert any(isinstance(record.event, e.CallStarted) for record in log)
