"""One tiny call that shows whether a target works."""

import asyncio

from holdfast.chaos import ChaosServer, Hang, Say, rate_limited_s
from holdfast.decisions.gates import Breaker
from holdfast.host.probe import probe
from holdfast.targets import Patience
from holdfast.values import Failure
from models.calls.calling import HANGS_S, line_to, target_of

SILENT = Failure(kind="stalled", text="no events")


async def test_an_answer_closes_the_breaker_that_kept_calls_away() -> None:
    """P10: a person need not wait for the next try."""
    async with ChaosServer([Say("ok")]) as server:
        target = target_of(server, "chat")
        async with line_to(target) as line:
            for _ in range(3):
                await line.shared.failed(target, SILENT)
            assert line.shared.breaker_wait_ms(target) > 0
            probed = await probe(line.calls.deps, target, seconds_max=HANGS_S)
            assert probed.failure is None
            assert line.shared.breaker(target) == Breaker()
            assert line.shared.activity.failing(target) is None
            assert line.shared.activity.last_failure(target) is not None


async def test_a_model_that_needs_longer_than_the_probe_is_not_held_against_it() -> None:
    async with ChaosServer([Hang()]) as server:
        target = target_of(server, "chat", patience=Patience(first_event_s=HANGS_S))
        async with line_to(target) as line:
            probed = await probe(line.calls.deps, target, seconds_max=0.05)
            assert probed.failure is not None
            assert probed.failure.kind == "no_first_event"
            assert probed.failure.text.startswith("no answer in 0.05 s; ")
            assert line.shared.breaker(target) == Breaker()
            assert line.shared.activity.active(target) == 0


async def test_a_refused_probe_neither_waits_nor_asks_twice() -> None:
    """P10: a gate that another call closed meanwhile stays closed."""
    async with ChaosServer([rate_limited_s(3600)], [Say("ok")]) as server:
        target = target_of(server, "chat")
        async with line_to(target) as line:
            async with asyncio.timeout(HANGS_S):
                first = await probe(line.calls.deps, target, seconds_max=HANGS_S)
            assert first.failure is not None
            assert first.failure.kind == "rate_limited"
            assert line.clock.slept_s == []
            closed = line.shared.gate(target)
            await line.shared.close_gate(target, 7_200_000, why="another call was told so")
            await line.shared.open_gate(target, closed)
            assert line.shared.gate_wait_ms(target) == 7_200_000
            assert (await probe(line.calls.deps, target, seconds_max=HANGS_S)).failure is None
            assert line.shared.gate_wait_ms(target) == 0
            assert line.clock.slept_s == []
