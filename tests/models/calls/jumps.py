"""A wall clock that somebody sets at every reading, and calls that must not notice."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast import events as e
from holdfast.chaos import (
    ChaosServer,
    Drop,
    Hang,
    Say,
    closed_port,
    overloaded_s,
    rate_limited,
    rate_limited_s,
    server_error,
)
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.targets import Patience, RetryLimits, Target

from .calling import SHORT_S, Line, TestClock, line_to, target_of

HOUR_MS = 3_600_000
GOOD = [Say("hello")]
SHORT = Patience(first_event_s=SHORT_S, gap_s=SHORT_S)
QUICK = Patience(first_event_s=0.05)  # only where no healthy answer follows


class WildClock(TestClock):
    """Each reading of the wall clock is anywhere within a few days; nothing else about it changes."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance

    def now_ms(self) -> int:
        self.jumped_ms = self._chance.choice((-1, 1)) * self._chance.randrange(1, 100 * HOUR_MS)
        return super().now_ms()


@dataclass(frozen=True, slots=True)
class Scenario:
    """A state to be in while the clock is set: what the server does, and what the target is like."""

    name: str
    scripts: Sequence[Any] = ()
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    calls: int = 1


SCENARIOS = (
    Scenario("waiting for the first event", ([Hang()], GOOD), {"patience": SHORT}),
    Scenario("streaming", ([Say("hel"), Hang()], GOOD), {"patience": SHORT}),
    Scenario("streaming, then dropped", ([Say("hel"), Drop()], [Say("h"), Drop()], GOOD)),
    Scenario("backing off", ([server_error()], [server_error()], GOOD)),
    Scenario("backing off after a bare 429", ([rate_limited()], [rate_limited()], GOOD)),
    Scenario("gated for a moment", ([rate_limited_s(7)], GOOD)),
    Scenario("gated for long", ([rate_limited_s(600)], GOOD, GOOD), calls=2),
    Scenario("gated by an overload", ([overloaded_s(600)], GOOD)),
    Scenario(
        "breaker open",
        ([Hang()],) * 5,
        {"patience": QUICK, "retry": RetryLimits(attempts_max=5, attempts_per_target_max=5)},
    ),
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a call did: how it ended, why its attempts failed, and how long it waited in between."""

    endings: tuple[str, ...]
    failures: tuple[str, ...]
    slept_s: tuple[float, ...]


async def seen(scenario: Scenario, clock: TestClock) -> Seen:
    """The scenario by this clock."""
    async with (
        ChaosServer(*scenario.scripts) as server,
        line_to(target_of(server, "chat", **scenario.fields), clock=clock) as line,
    ):
        return await _asked(line, scenario.calls)


async def seen_unreachable(clock: TestClock) -> Seen:
    """A call to a model that stays away."""
    with closed_port() as port:
        target = Target(name="main", wire="chat", base_url=f"http://127.0.0.1:{port}/v1", model="m")
        async with line_to(target, clock=clock) as line:
            await line.shared.reached(target)
            return await _asked(line, 1)


async def slept_over_a_restart_s(length_s: int, before: TestClock, after: TestClock) -> float:
    """How long a call waits for a gate that an earlier process closed for so long, with another clock."""
    disk = MemoryDisk()
    async with ChaosServer(GOOD) as server:
        target = target_of(server, "chat")
        async with line_to(target, clock=before, disk=disk) as line:
            await line.shared.close_gate(target, 1000 * length_s, why="busy")
        async with line_to(target, clock=after, disk=disk) as line:
            await line.ask()
    return sum(after.slept_s)


async def _asked(line: Line, calls: int) -> Seen:
    voices = [line.another_voice() for _ in range(calls)]
    endings = [type(await line.ask(sink=sink)).__name__ for sink in voices]
    failures = [
        f"{event.failure.kind} {event.close_reason} {'anew' in event.failure.text}"
        for sink in voices
        for event in sink.of(e.AttemptFailed)
    ]
    return Seen(tuple(endings), tuple(failures), tuple(line.clock.slept_s))


async def campaign(seed: int, cycles: int) -> int:
    """Every scenario by a calm and by a wild clock, so many times; how many were compared."""
    chance, compared = random.Random(seed), 0
    for _ in range(cycles):
        for scenario in SCENARIOS:
            calm, wild = await seen(scenario, TestClock()), await seen(scenario, WildClock(chance))
            assert wild == calm, (seed, scenario.name, wild, calm)
            compared += 1
        calm, wild = await seen_unreachable(TestClock()), await seen_unreachable(WildClock(chance))
        assert wild == calm, (seed, "unreachable", wild, calm)
        length_s = chance.randrange(1, 3_600)
        slept_s = await slept_over_a_restart_s(length_s, WildClock(chance), WildClock(chance))
        assert slept_s <= length_s, (seed, "restart", slept_s, length_s)
        compared += 2
    return compared
