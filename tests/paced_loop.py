"""Event loops whose clock passes only while their process runs.

A busy machine lets a process wait for tenths of a second. On such a loop, that takes nothing off anyone's
patience: a healthy peer in the same process is never cut, and a silent one still is.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Any

import uvloop
from typing_extensions import override

BEAT_S = 0.01  # how often the clock is read at least
STEP_S_MAX = 0.03  # what counts of the time between two readings: if more has passed, the process didn't run


class _Clock:
    """Adds up the time that counts."""

    def __init__(self, now_s: float) -> None:
        self._counted_s = self._read_s = now_s

    def read(self, now_s: float) -> float:
        self._counted_s += min(now_s - self._read_s, STEP_S_MAX)
        self._read_s = now_s
        return self._counted_s


class PacedAsyncioLoop(asyncio.SelectorEventLoop):
    """Asyncio's own loop; its timers ask its clock."""

    def __init__(self) -> None:
        super().__init__()
        self._clock = _Clock(super().time())
        self._beat()

    @override
    def time(self) -> float:
        return self._clock.read(super().time())

    def _beat(self) -> None:
        self.call_later(BEAT_S, self._beat)


class PacedUvloop(uvloop.Loop):
    """Uvloop, whose timers have a clock of their own; here, each asks ours before it goes off."""

    def __init__(self) -> None:
        super().__init__()
        self._clock = _Clock(super().time())
        self._beat()

    @override
    def time(self) -> float:
        return self._clock.read(super().time())

    @override
    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Any:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    @override
    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Any:
        arm = partial(super().call_later, context=context)
        return _Timer(self.time, arm, when, partial(callback, *args))

    def _beat(self) -> None:
        self.time()
        super().call_later(BEAT_S, self._beat)


class _Timer:
    """Goes off once its time has come by the clock; until then it is set again."""

    def __init__(
        self,
        now_s: Callable[[], float],
        arm: Callable[[float, Callable[[], None]], asyncio.Handle],
        when_s: float,
        call: Callable[[], object],
    ) -> None:
        self._now_s = now_s
        self._arm = arm
        self._when_s = when_s
        self._call: Callable[[], object] | None = call
        self._is_cancelled = False
        self._armed = arm(max(0.0, when_s - now_s()), self._look)

    def when(self) -> float:
        return self._when_s

    def cancelled(self) -> bool:
        return self._is_cancelled

    def cancel(self) -> None:
        self._is_cancelled, self._call = True, None
        self._armed.cancel()

    def _look(self) -> None:
        left_s = self._when_s - self._now_s()
        if left_s > 0:
            self._armed = self._arm(left_s, self._look)
        elif self._call is not None:
            call, self._call = self._call, None
            call()
