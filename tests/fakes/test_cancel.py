"""CancelAt cancels at exactly the nth suspension, and otherwise changes nothing."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing

import pytest

from fakes.cancel import CancelAt

Scenario = Callable[[list[str]], Coroutine[object, object, str]]


async def plain(log: list[str]) -> str:
    for name in ("a", "b", "c"):
        await asyncio.sleep(0)
        log.append(name)
    return "done"


async def on_futures(log: list[str]) -> str:
    loop = asyncio.get_running_loop()
    for name in ("a", "b"):
        future: asyncio.Future[str] = loop.create_future()
        loop.call_soon(lambda f=future, n=name: None if f.done() else f.set_result(n))
        log.append(await future)
    return "done"


async def with_clean_up(log: list[str]) -> str:
    try:
        await asyncio.sleep(0)
        log.append("worked")
    finally:
        await asyncio.sleep(0)
        log.append("cleaned")
    return "done"


async def in_a_group(log: list[str]) -> str:
    async def child(name: str) -> None:
        try:
            await asyncio.sleep(0)
            log.append(name)
        finally:
            log.append(f"{name} left")

    async with asyncio.TaskGroup() as group:
        group.create_task(child("x"))
        group.create_task(child("y"))
        await asyncio.sleep(0)
    return "done"


async def under_a_deadline(log: list[str]) -> str:
    try:
        async with asyncio.timeout(0.001):
            await asyncio.get_running_loop().create_future()
    except TimeoutError:
        log.append("deadline")
    await asyncio.sleep(0)
    return "done"


async def through_a_generator(log: list[str]) -> str:
    async def numbers() -> AsyncGenerator[int]:
        try:
            for number in range(3):
                await asyncio.sleep(0)
                yield number
        finally:
            await asyncio.sleep(0)
            log.append("generator closed")

    async with aclosing(numbers()) as stream:
        async for number in stream:
            log.append(str(number))
            if number == 1:
                break
    return "done"


SCENARIOS = [plain, on_futures, with_clean_up, in_a_group, under_a_deadline, through_a_generator]


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_every_suspension_is_cancelled_in_its_turn(scenario: Scenario) -> None:
    cancelled = 0
    for nth in itertools.count(1):
        attempt = CancelAt(scenario([]), nth)
        task = await attempt.in_own_task()
        assert task.done()
        assert len(asyncio.all_tasks()) == 1, "a task was left behind"
        if not attempt.reached:
            assert task.result() == "done"
            assert attempt.suspensions == nth - 1
            break
        assert task.cancelled()
        cancelled += 1
    assert cancelled >= 2


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_coroutine_that_is_not_cancelled_runs_as_without_it(scenario: Scenario) -> None:
    plainly: list[str] = []
    watched: list[str] = []
    await scenario(plainly)
    task = await CancelAt(scenario(watched), 1_000).in_own_task()
    assert task.result() == "done"
    assert watched == plainly


async def test_the_work_before_the_nth_suspension_is_done_and_none_after_it() -> None:
    log: list[str] = []
    task = await CancelAt(plain(log), 3).in_own_task()
    assert task.cancelled()
    assert log == ["a", "b"]


async def test_a_finally_that_awaits_is_run_to_its_end() -> None:
    log: list[str] = []
    attempt = CancelAt(with_clean_up(log), 1)
    task = await attempt.in_own_task()
    assert task.cancelled()
    assert log == ["cleaned"]
    assert attempt.suspensions == 2


async def test_a_second_number_cancels_the_clean_up_too() -> None:
    log: list[str] = []
    attempt = CancelAt(with_clean_up(log), 1, 2)
    task = await attempt.in_own_task()
    assert task.cancelled()
    assert attempt.reached
    assert log == []


async def test_what_is_shielded_goes_on() -> None:
    gate = asyncio.Event()

    async def precious() -> str:
        await gate.wait()
        return "kept"

    inner = asyncio.get_running_loop().create_task(precious())

    async def shielding() -> str:
        return await asyncio.shield(inner)

    task = await CancelAt(shielding(), 1).in_own_task()
    assert task.cancelled()
    assert not inner.done()
    gate.set()
    assert await inner == "kept"


async def test_a_coroutine_that_swallows_the_cancellation_is_seen_to_do_so() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            return "swallowed"
        return "done"

    attempt = CancelAt(stubborn(), 1)
    task = await attempt.in_own_task()
    assert attempt.reached
    assert task.result() == "swallowed"


async def test_an_exception_passes_through() -> None:
    async def failing() -> None:
        await asyncio.sleep(0)
        raise ValueError("as ever")

    task = await CancelAt(failing(), 5).in_own_task()
    assert isinstance(task.exception(), ValueError)


async def test_a_cancellation_from_outside_reaches_the_coroutine_and_nothing_is_left() -> None:
    log: list[str] = []
    started = asyncio.Event()

    async def waiting() -> None:
        try:
            started.set()
            await asyncio.get_running_loop().create_future()
        finally:
            log.append("told")

    outer = asyncio.get_running_loop().create_task(CancelAt(waiting(), 1_000).in_own_task())
    await started.wait()
    outer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await outer
    assert log == ["told"]
    assert len(asyncio.all_tasks()) == 1


def test_a_coroutine_that_is_given_up_is_closed() -> None:
    log: list[str] = []

    async def waiting() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            log.append("closed")

    driven = CancelAt(waiting(), 1_000).__await__()
    next(driven)
    driven.close()
    assert log == ["closed"]
