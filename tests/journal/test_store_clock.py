"""The time of a shared store: corrected, and never turned back by a correction."""

import time

from holdfast.features.postgres.clock import ClockSamples, StoreClock
from holdfast.interfaces.system_clock import SystemClock, steady_s
from stores import MemoryStore


class SetClock(SystemClock):
    """Its wall clock says what it is told."""

    ms = 1_000

    def now_ms(self) -> int:
        return self.ms


class Elsewhere(MemoryStore):
    """A store whose clock is off."""

    offset_ms = 0

    @property
    def clock_offset_ms(self) -> int:
        return self.offset_ms


async def test_the_time_is_the_stores_and_a_correction_never_turns_it_back() -> None:
    system, store = SetClock(), Elsewhere()
    clock = StoreClock(system, store)
    assert clock.now_ms() == 1_000
    store.offset_ms = 500
    assert clock.now_ms() == 1_500, "forward at once"
    store.offset_ms = 200
    assert clock.now_ms() == 1_500
    system.ms = 1_100
    assert clock.now_ms() == 1_500, "it stands still"
    system.ms = 1_350
    assert clock.now_ms() == 1_550, "and is right again"
    system.ms = 1_000
    assert clock.now_ms() == 1_200, "whoever sets the computer's clock back is obeyed"


async def test_the_sample_with_the_shortest_round_trip_counts() -> None:
    now_s, samples = steady_s(), ClockSamples()
    assert samples.offset_ms == 0
    ahead_s = time.time() - now_s + 5.0
    samples.add(asked_s=now_s, answered_s=now_s + 0.5, database_s=now_s + 0.25 + ahead_s + 0.2)
    samples.add(asked_s=now_s, answered_s=now_s + 0.002, database_s=now_s + 0.001 + ahead_s)
    samples.add(asked_s=now_s, answered_s=now_s + 0.4, database_s=now_s + 0.2 + ahead_s - 0.2)
    assert abs(samples.offset_ms - 5_000) < 100


async def test_a_store_of_one_computer_has_its_time() -> None:
    store = MemoryStore()
    assert store.clock_offset_ms == 0
    system = SetClock()
    assert StoreClock(system, store).now_ms() == system.ms
