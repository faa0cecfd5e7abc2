"""A seeded campaign: keys with few and many runs share slots, and runs end, pause and continue at random."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable

from holdfast.runner.slots import Slots
from runner.steered_clock import settle


class SharedSlots:
    """Runs of several keys, and what the slots gave to each."""

    def __init__(self, dice: random.Random, kind: Callable[[int], Slots]) -> None:
        self._dice = dice
        self._most = dice.randrange(1, 20)
        self._slots = kind(self._most)
        self._keys = "abcdef"[: dice.randrange(2, 7)]
        self._loads = [dice.choice((1, 1, 5, 50)) for _ in self._keys]
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[str, str] = {}  # keys by run
        self._working: dict[str, str] = {}
        self._paused: dict[str, str] = {}
        self._passed_over: Counter[str] = Counter()  # runs of others that began, by key that waits with none

    async def run(self, steps: int) -> None:
        """Do so many random things, then let everything end."""
        for nth in range(steps):
            await self._step(self._dice.random(), f"r{nth}")
            is_free = len(self._working) < self._most
            assert not (self._waiting and is_free), "a slot is free while runs wait"
        while self._working or self._waiting:
            self._continue()
            assert self._working, "a run waits and nothing works"
            await self._end(self._dice.choice(sorted(self._working)))
        assert all(task.done() for task in self._tasks.values())

    async def _step(self, roll: float, run_id: str) -> None:
        if roll < 0.45 or not self._working:
            (key,) = self._dice.choices(self._keys, self._loads)
            self._waiting[run_id] = key
            self._tasks[run_id] = asyncio.create_task(self._slots.acquire(run_id, key=key))
            await self._grant()
        elif roll < 0.8:
            await self._end(self._dice.choice(sorted(self._working)))
        elif roll < 0.9:
            run_id = self._dice.choice(sorted(self._working))
            self._paused[run_id] = self._working[run_id]
            await self._end(run_id)
        else:
            self._continue()

    def _continue(self) -> None:
        """Paused runs continue at once, even beyond the limit."""
        for run_id, key in self._paused.items():
            self._slots.acquire_over_limit(key)
            self._working[run_id] = key
        self._paused.clear()

    async def _end(self, run_id: str) -> None:
        self._slots.release(self._working.pop(run_id))
        await self._grant()

    async def _grant(self) -> None:
        """See who got a slot: no key that holds more than one that waits."""
        await settle(3)
        begun = [run_id for run_id in self._waiting if self._tasks[run_id].done()]
        for run_id in begun:
            key = self._waiting.pop(run_id)
            held = Counter(self._working.values())
            self._working[run_id] = key
            for other in set(self._waiting.values()) - {key}:
                assert held[key] <= held[other], f"{key} has {held}, and {other} waits"
                self._passed_over[other] += not held[other]
                assert self._passed_over[other] <= len(self._keys), f"{other} is passed over"
            del self._passed_over[key]


async def shared_slots(kind: Callable[[int], Slots] = Slots, *, seed: int, steps: int) -> None:
    """P10: a free slot is used, the key with the fewest is next, and none waits forever."""
    try:
        await SharedSlots(random.Random(seed), kind).run(steps)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
