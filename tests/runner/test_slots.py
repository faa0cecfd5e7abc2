"""Slots: given out in order, lent while a run waits, and never lost to whoever is cancelled."""

import asyncio
import random

import pytest

from holdfast.runner.slots import Slot, Slots
from runner.slot_campaign import shared_slots


async def test_slots_are_given_out_in_the_order_in_which_they_were_asked_for() -> None:
    slots, begun = Slots(1), list[str]()

    async def work(run_id: str) -> None:
        async with Slot(slots, run_id):
            begun.append(run_id)

    async with asyncio.TaskGroup() as tasks, Slot(slots, "r0"):
        for nth in range(1, 4):
            tasks.create_task(work(f"r{nth}"))
            await asyncio.sleep(0)
        assert [slots.position(f"r{nth}") for nth in range(4)] == [0, 1, 2, 3]
        assert slots.waiting == 3
    assert begun == ["r1", "r2", "r3"]
    assert not slots.waiting


async def test_a_lent_slot_serves_another_and_is_there_again_at_once() -> None:
    """P10: whoever goes on after a wait does not queue again; the next in line waits a little longer."""
    slots = Slots(1)
    async with Slot(slots, "one") as one:
        one.release()
        one.release()
        async with Slot(slots, "two"):
            one.reacquire()
            third = asyncio.ensure_future(slots.acquire("three"))
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not third.done()
    await third


@pytest.mark.parametrize("seed", range(20))
async def test_no_slot_is_lost_or_made_whoever_is_cancelled_when(seed: int) -> None:
    dice, slots, most, working = random.Random(seed), Slots(3), 3, set[str]()

    async def work(run_id: str) -> None:
        async with Slot(slots, run_id) as slot:
            working.add(run_id)
            assert len(working) <= most
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
            working.remove(run_id)
            slot.release()
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)

    tasks = [asyncio.create_task(work(f"r{nth}")) for nth in range(40)]
    for _ in range(30):
        await asyncio.sleep(0)
        victim = dice.choice(tasks)
        victim.cancel()
        working -= {f"r{tasks.index(victim)}"}
    await asyncio.wait(tasks)
    assert all(task.cancelled() or task.exception() is None for task in tasks)
    for nth in range(most):
        await slots.acquire(f"after {nth}")
    assert not slots.waiting


async def test_a_reserved_place_is_kept_for_a_run_until_it_is_in_the_queue() -> None:
    """P10: a run that is being stored, one that its owner has not seen yet and one that waits all count."""
    slots = Slots(1)
    async with Slot(slots, "working"):
        with slots.reserve(waiting_max=1) as first:
            with slots.reserve(waiting_max=1) as second:
                assert (first, second) == (True, False)
            slots.add_pending("r1", session_id="s")
        with slots.reserve(waiting_max=1) as third:
            assert not third
        waiting = asyncio.ensure_future(slots.acquire("r1"))
        await asyncio.sleep(0)
        with slots.reserve(waiting_max=1) as fourth, slots.reserve(waiting_max=2) as fifth:
            assert (fourth, fifth) == (False, True)
    await waiting
    with slots.reserve(waiting_max=0) as without_a_free_slot:
        assert not without_a_free_slot
    slots.release()
    with slots.reserve(waiting_max=0) as with_one:
        assert with_one


async def test_a_run_that_never_comes_to_the_line_takes_no_place_in_it() -> None:
    slots = Slots(0)
    for run_id, session_id in (("r1", "b"), ("r2", "a"), ("r3", "a"), ("r4", "b")):
        slots.add_pending(run_id, session_id=session_id)
    slots.drop_pending("a")
    slots.remove_pending("r1")
    with slots.reserve(waiting_max=2) as one, slots.reserve(waiting_max=2) as another:
        assert (one, another) == (True, False)


async def test_a_place_is_free_again_when_the_run_could_not_be_stored() -> None:
    slots = Slots(0)

    async def store() -> None:
        with slots.reserve(waiting_max=1) as has_room:
            assert has_room
            await asyncio.get_running_loop().create_future()

    storing = asyncio.ensure_future(store())
    await asyncio.sleep(0)
    storing.cancel()
    await asyncio.wait([storing])
    with slots.reserve(waiting_max=1) as has_room:
        assert has_room


async def test_a_key_with_hundreds_of_runs_keeps_no_other_key_waiting() -> None:
    """P10: another key's run begins at once, and later ones take turns with those that came long before."""
    slots, begun = Slots(16), list[str]()

    async def work(run_id: str) -> None:
        await slots.acquire(run_id, key=run_id[0])
        begun.append(run_id)

    async with asyncio.TaskGroup() as tasks:
        for nth in range(400):
            tasks.create_task(work(f"a{nth}"))
        await asyncio.sleep(0)
        for nth in range(3):
            tasks.create_task(work(f"b{nth}"))
        await asyncio.sleep(0)
        assert begun == [*(f"a{nth}" for nth in range(16)), "b0"]
        assert [slots.position(run_id) for run_id in ("b1", "b2", "a16", "a17", "b0")] == [1, 2, 3, 4, 0]
        slots.release("a")
        slots.release("a")  # now as many work as there are slots, with the one of b
        await asyncio.sleep(0)
        assert begun[17:] == ["b1"]
        for _ in range(400):
            slots.release(begun[len(begun) - 17][0])
            await asyncio.sleep(0)
    assert len(begun) == 403
    assert begun[18] == "b2"


async def test_a_single_slot_goes_from_key_to_key() -> None:
    """P10: a queue of hundreds takes turns with a message of another key."""
    slots, begun = Slots(1), list[str]()

    async def work(run_id: str) -> None:
        async with Slot(slots, run_id, key=run_id[0]):
            begun.append(run_id)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        for run_id in (*(f"a{nth}" for nth in range(300)), "b0", "b1", "c0"):
            tasks.create_task(work(run_id))
        await asyncio.sleep(0)
        assert [slots.position(run_id) for run_id in ("b0", "c0", "a2")] == [1, 2, 5]
    assert begun[:7] == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


async def test_a_full_queue_of_one_key_has_places_for_another() -> None:
    """P10: a few for each, and no more than a quarter of the queue."""
    slots = Slots(0)
    for nth in range(100):
        slots.add_pending(f"a{nth}", session_id="a", key="a")
    with slots.reserve(waiting_max=100, key="a") as greedy, slots.reserve(waiting_max=100, key="b") as other:
        assert (greedy, other) == (False, True)
    for nth in range(6):
        slots.add_pending(f"b{nth}", session_id="b", key="b")
    with slots.reserve(waiting_max=100, key="b") as seventh:
        assert not seventh


@pytest.mark.parametrize("seed", range(1, 21))
async def test_any_mix_of_keys_shares_slots_fairly(seed: int) -> None:
    """P10: the campaign itself asserts."""
    await shared_slots(seed=seed, steps=300)
