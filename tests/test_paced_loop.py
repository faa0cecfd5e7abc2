"""The clocks that other tests go by: what a machine withholds from a process doesn't count."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from paced_loop import STEP_S_MAX, PacedAsyncioLoop, PacedUvloop

LOOPS = pytest.mark.parametrize("new_loop", [PacedAsyncioLoop, PacedUvloop])
NewLoop = Callable[[], asyncio.AbstractEventLoop]


@LOOPS
def test_what_passes_while_nothing_runs_is_hardly_counted(new_loop: NewLoop) -> None:
    async def stand_still() -> tuple[float, bool]:
        loop = asyncio.get_running_loop()
        gone_off: list[str] = []
        loop.call_later(0.2, gone_off.append, "due")
        before_s = loop.time()
        threading.Event().wait(0.3)
        passed_s = loop.time() - before_s
        for _ in range(3):
            await asyncio.sleep(0)
        return passed_s, bool(gone_off)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        passed_s, has_gone_off = runner.run(stand_still())
    assert passed_s < 2 * STEP_S_MAX
    assert not has_gone_off


@LOOPS
def test_what_is_waited_for_counts_and_what_is_cancelled_never_comes(new_loop: NewLoop) -> None:
    async def wait() -> tuple[float, list[str]]:
        loop = asyncio.get_running_loop()
        gone_off: list[str] = []
        loop.call_later(0.02, gone_off.append, "first")
        late = loop.call_at(loop.time() + 0.03, gone_off.append, "cancelled")
        late.cancel()
        before_s = loop.time()
        await asyncio.sleep(0.1)
        assert late.cancelled()
        return loop.time() - before_s, gone_off

    with asyncio.Runner(loop_factory=new_loop) as runner:
        passed_s, gone_off = runner.run(wait())
    assert passed_s >= 0.099
    assert gone_off == ["first"]
