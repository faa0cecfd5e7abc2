"""A seeded campaign: a target falls silent and recovers at random times while many calls wait for it."""

import asyncio
import random

from holdfast.decisions.gates import COOLDOWN_MS
from holdfast.models.target_states import STAGGER_MS_MAX, TargetStates
from holdfast.targets import Target
from holdfast.values import Failure
from runner.steered_clock import SteeredClock, settle
from stores import MemoryStore

TARGET = Target(name="main", wire="chat", base_url="http://127.0.0.1:9/v1", model="m")
SILENT = Failure(kind="no_first_event", text="silent")
PATIENCES_S, ANSWER_S = (2.0, 45.0), 0.1  # shorter and longer than the first pause


class SilentTarget:
    """Calls that attempt, fail and wait as model calls do, without a network."""

    def __init__(self, dice: random.Random, kind: type[TargetStates]) -> None:
        self._dice = dice
        self._clock = SteeredClock()
        self._states = kind(MemoryStore(), self._clock)
        self._calls: set[asyncio.Task[None]] = set()
        self._is_silent = False
        self._opened_ms = 0  # when the breaker opened; 0 while it's closed
        self._probes = 0
        self._patience_s = 0.0

    async def run(self, rounds: int) -> None:
        """So many silences, each met by calls that come at random times."""
        for nth in range(rounds):
            self._is_silent, self._patience_s = True, PATIENCES_S[nth % 2]
            for _ in range(self._dice.randrange(1, 30)):
                self._calls.add(asyncio.create_task(self._call()))
                await self._pass_s(self._dice.choice((0, 0.5, 7, 100)) * self._dice.random())
            await self._pass_s(self._dice.choice((3, 60, 900)) * self._dice.random())
            self._is_silent = False
            answered = asyncio.create_task(self._call())
            self._calls.add(answered)
            while not answered.done():
                await self._pass_s(1)
            await self._pass_s(self._patience_s + STAGGER_MS_MAX / 1_000)
            assert all(call.done() for call in self._calls), "a call waits though the target has answered"
            await asyncio.gather(*self._calls)
            self._calls.clear()

    async def _call(self) -> None:
        states, is_early = self._states, True
        while True:
            while not (states.may_pass(TARGET) or (is_early and states.may_probe_early(TARGET))):
                await states.turn(TARGET).is_skipped()
            is_early = False
            if await self._is_answered():
                return
            self._check_pause()
            wait_ms = max(500, states.breaker_wait_ms(TARGET))
            await states.pause(TARGET, wait_ms).is_skipped()

    async def _is_answered(self) -> bool:
        is_probe = bool(self._states.breaker(TARGET).cooldown_ms)
        self._probes += is_probe
        assert self._probes <= 1, "more than one probe at a time"
        try:
            with self._states.attempting(TARGET):
                if not self._is_silent:
                    await self._clock.sleep_s(ANSWER_S)
                    self._states.progressed(TARGET)
                    await self._states.answered(TARGET)
                    return True
                await self._clock.sleep_s(self._patience_s)
                await self._states.failed(TARGET, SILENT)
                return False
        finally:
            self._probes -= is_probe

    def _check_pause(self) -> None:
        """The pause is no longer than the silence plus the first pause, however many calls met it."""
        cooldown_ms, now_ms = self._states.breaker(TARGET).cooldown_ms, self._clock.now_ms()
        if not cooldown_ms:
            self._opened_ms = 0
            return
        self._opened_ms = self._opened_ms or now_ms
        assert cooldown_ms <= now_ms - self._opened_ms + COOLDOWN_MS + 1_000, "the pause grows with messages"

    async def _pass_s(self, seconds: float) -> None:
        await settle(20)
        until_s = self._clock.monotonic_s() + seconds
        while (left_s := until_s - self._clock.monotonic_s()) > 1e-6:
            next_s = self._clock.next_s
            self._clock.advance(max(min(left_s, left_s if next_s is None else next_s), 0.001))
            await settle(20)
        self._check_pause()

    async def close(self) -> None:
        """End calls that are left."""
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)


async def silent_target(kind: type[TargetStates] = TargetStates, *, seed: int, rounds: int) -> None:
    """P3, P10: one probe at a time, a pause that grows with time alone, a recovery that frees all calls."""
    campaign = SilentTarget(random.Random(seed), kind)
    try:
        await campaign.run(rounds)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        await campaign.close()
