"""What each target is doing, and how its last calls ended: in memory, since the process started."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from holdfast.interfaces.clock import Clock
from holdfast.targets import Target
from holdfast.values import Failure


@dataclass(frozen=True, slots=True)
class LastFailure:
    """The newest failed attempt at a target."""

    at_ms: int
    failure: Failure


class TargetActivity:
    """Counts open attempts, and keeps the newest success and failure of each target."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._active: Counter[str] = Counter()
        self._answered_ms: dict[str, int] = {}
        self._failures: dict[str, LastFailure] = {}
        self._is_failing: set[str] = set()

    @contextmanager
    def attempt(self, target: Target) -> Generator[None]:
        """Count an attempt while it is under way."""
        self._active[target.name] += 1
        try:
            yield
        finally:
            self._active[target.name] -= 1

    def answered(self, target: Target) -> None:
        """Note a success."""
        self._answered_ms[target.name] = self._clock.now_ms()
        self._is_failing.discard(target.name)

    def failed(self, target: Target, failure: Failure) -> None:
        """Note a failure."""
        self._failures[target.name] = LastFailure(self._clock.now_ms(), failure)
        self._is_failing.add(target.name)

    def active(self, target: Target) -> int:
        """How many attempts are under way."""
        return self._active[target.name]

    def answered_ms(self, target: Target) -> int | None:
        """When the target last answered; None if it hasn't."""
        return self._answered_ms.get(target.name)

    def last_failure(self, target: Target) -> LastFailure | None:
        """The newest failure, whatever came after it."""
        return self._failures.get(target.name)

    def failing(self, target: Target) -> Failure | None:
        """The newest failure, unless the target has answered since."""
        return self._failures[target.name].failure if target.name in self._is_failing else None
