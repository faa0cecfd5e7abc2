"""A race: the first that is done decides, and the others have ended when it is over."""

import asyncio
from pathlib import Path

import pytest

import holdfast
from holdfast.racing import race, wait_through_cancel


class Runner:
    """Waits for a gate; once it is cancelled it notes the cause and needs a second gate to end."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.told = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.cause: object = None
        self.cancels = 0

    async def run(self) -> str:
        self.begun.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError as stop:
            self.cancels += 1
            self.cause = stop.args[0] if stop.args else None
            self.told.set()
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.cancels += 1
            raise
        return "done"


async def test_the_loser_is_cancelled_with_the_cause_and_has_ended() -> None:
    fast, slow = Runner(), Runner()
    first, second = asyncio.create_task(fast.run()), asyncio.create_task(slow.run())
    await slow.begun.wait()
    fast.gate.set()
    await race(first, second, cause="slower")
    assert first.result() == "done"
    assert second.cancelled()
    assert slow.cause == "slower"


async def test_a_watched_future_is_left_alone() -> None:
    fast, beside = Runner(), Runner()
    first, watched = asyncio.create_task(fast.run()), asyncio.create_task(beside.run())
    await beside.begun.wait()
    fast.gate.set()
    await race(first, watched=[watched])
    assert not watched.done()
    beside.gate.set()
    other = Runner()
    waiting = asyncio.create_task(other.run())
    await race(waiting, watched=[watched])
    assert watched.result() == "done"
    assert waiting.cancelled()


async def test_a_race_ends_without_a_winner_when_its_time_is_over() -> None:
    slow = Runner()
    task = asyncio.create_task(slow.run())
    await slow.begun.wait()
    await race(task, within_s=0)
    assert task.cancelled()


@pytest.mark.parametrize(("args", "cause"), [(("user_stop",), "user_stop"), ((), "shutdown")])
async def test_a_stop_reaches_the_owned_with_its_cause_and_waits_for_their_end(
    args: tuple[str, ...], cause: str
) -> None:
    """P5: what was begun has ended before the stop goes on."""
    one, other = Runner(), Runner()
    one.may_end.clear()
    tasks = [asyncio.create_task(one.run()), asyncio.create_task(other.run())]
    racing = asyncio.create_task(race(*tasks, cause="slower", cause_of_stop="shutdown"))
    await one.begun.wait()
    await other.begun.wait()
    racing.cancel(*args)
    await one.told.wait()
    racing.cancel("again")  # the cleanup that is under way goes on
    await asyncio.sleep(0)
    assert not racing.done()
    one.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await racing
    assert (one.cause, one.cancels) == (cause, 1)
    assert all(task.cancelled() for task in tasks)


async def test_a_wait_for_the_end_raises_the_stop_that_came_meanwhile() -> None:
    slow = Runner()
    task = asyncio.create_task(slow.run())
    waiting = asyncio.create_task(wait_through_cancel(task))
    await slow.begun.wait()
    waiting.cancel("stop")
    await asyncio.sleep(0)
    assert not waiting.done()
    slow.gate.set()
    with pytest.raises(asyncio.CancelledError, match="stop"):
        await waiting
    assert task.result() == "done"


def test_every_race_of_the_program_is_this_one() -> None:
    source = Path(holdfast.__file__).parent
    racing = {path.name for path in source.rglob("*.py") if "FIRST_COMPLETED" in path.read_text()}
    assert racing == {"racing.py"}
