"""Pools of keys: the next key is used before the next target, and outside the count of attempts."""

from typing import Any

from holdfast import events as e
from holdfast.chaos import ChaosServer, Drop, Gate, Say, bad_key, insufficient_quota, rate_limited_s
from holdfast.chaos.statuses import Status
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.models.target_states import TargetStates
from holdfast.targets import RetryLimits, Target, Wire
from side_by_side import on_each_wire
from stores import MemoryStore
from tables import for_each_row

from .calling import TestClock, line_to, target_of

KEYS = tuple(f"sk-pool-key-{letter}-123456" for letter in "abc")
FIRST, SECOND, THIRD = KEYS
GOOD = [Say("hello")]
ONCE = RetryLimits(attempts_max=1, attempts_per_target_max=1)


def keys_used(server: ChaosServer) -> list[str]:
    """The key of each request."""
    headers = [request.headers for request in server.seen.requests]
    return [one.get("x-api-key") or one["authorization"].removeprefix("Bearer ") for one in headers]


def pool(server: ChaosServer, wire: Wire = "chat", **fields: Any) -> Target:
    return target_of(server, wire, **{"api_key": ""} | fields, api_keys=KEYS)


LIMITS = {"429": rate_limited_s(30), "quota": insufficient_quota(), "401": bad_key()}


@for_each_row("limit", list(LIMITS.values()), ids=list(LIMITS))
@on_each_wire
async def test_another_key_answers_and_the_call_had_one_attempt(wire: Wire, limit: Status) -> None:
    """P9, P10: nobody is told of a key that reached its limit, and the next call doesn't ask it."""
    async with (
        ChaosServer([limit], [limit], GOOD, GOOD) as server,
        line_to(pool(server, wire, retry=ONCE)) as line,
    ):
        assert isinstance(await line.ask(), Answer)
        assert keys_used(server) == list(KEYS)
        assert not line.told.notices
        assert [attempt.nth for attempt in line.told.of(e.AttemptStarted)] == [1, 1, 1]
        assert isinstance(await line.ask(sink=line.another_voice()), Answer)
        assert keys_used(server)[3:] == [THIRD]


@on_each_wire
async def test_all_keys_are_tried_before_the_next_target(wire: Wire) -> None:
    async with (
        ChaosServer([bad_key()], [bad_key()], [bad_key()], [bad_key()]) as bad,
        ChaosServer(GOOD) as free,
    ):
        async with line_to(pool(bad, wire), target_of(free, wire, "second")) as line:
            assert isinstance(await line.ask(), Answer)
            assert keys_used(bad) == list(KEYS)
            assert line.told.notices == ["switched"]
        async with line_to(pool(bad, wire)) as line:
            line.shared = TargetStates(MemoryStore(), line.clock)
            for key in KEYS[:2]:
                await line.shared.close_gate(pool(bad, wire, api_key=key), 60_000, why="busy")
            ended = await line.ask()
            assert isinstance(ended, NoAnswer)
            assert ended.failure.kind == "auth", (
                "the key that may be used was rejected; no call waits for the rest"
            )
            assert keys_used(bad)[3:] == [THIRD]


async def test_a_failure_of_the_connection_keeps_the_key_and_counts() -> None:
    """A key is changed for what another key can help with, and for nothing else."""
    async with ChaosServer([Drop()], GOOD) as server, line_to(pool(server)) as line:
        assert isinstance(await line.ask(), Answer)
        assert keys_used(server) == [FIRST, FIRST]
        assert [attempt.nth for attempt in line.told.of(e.AttemptStarted)] == [1, 2]


async def test_when_every_key_waits_the_call_waits_for_the_one_that_opens_first() -> None:
    """P3: also on another server, which has learned of the same limits from the notes."""
    disk, clock = MemoryDisk(), TestClock()
    limits = [rate_limited_s(50)], [rate_limited_s(20)], [rate_limited_s(90)]
    async with (
        ChaosServer(*limits, GOOD, GOOD) as server,
        line_to(pool(server), clock=clock, disk=disk) as line,
    ):
        clock.held = Gate()
        first = line.start()
        await line.told.until_line("main asked to wait · retrying in 20 s")
        other = TargetStates(MemoryStore(disk), clock)
        await other.load()
        assert other.with_open_key(pool(server)).api_key == SECOND
        assert [other.gate_wait_ms(pool(server, api_key=key)) for key in KEYS] == [50_000, 20_000, 90_000]
        clock.held.open()
        assert isinstance(await first, Answer)
        assert keys_used(server) == [*KEYS, SECOND]
