"""Limits of API keys: a budget per day, and requests per minute."""

from collections import Counter, deque
from collections.abc import AsyncGenerator, Container, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias

from msgspec import Struct

from holdfast.config.server import KeySettings
from holdfast.folds.usage import DAY_MS
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.usage import UsageQuery, UsageSource, UsageSum
from holdfast.server.access.caller import caller_name
from holdfast.server.problems import Problem, too_many

EVERY_KEY = "*"
MINUTE_S = 60.0


class CallReservation(Struct, frozen=True):
    """The estimated maximum usage of a call."""

    tokens: int
    usd: float

    def __post_init__(self) -> None:
        assert self.tokens >= 0, "a negative number would cancel the reservations of other calls"
        assert self.usd >= 0


class KeyBudget(Struct, frozen=True):
    """A key's budget, and its usage today."""

    key: str
    limits: KeySettings
    used: UsageSum
    resets_at_ms: int


SettingsByKey: TypeAlias = Mapping[str, KeySettings]
_NO_LIMITS = KeySettings(name="")
_NOTHING = CallReservation(0, 0.0)
_OTHERS_END_S = 5


class KeyBudgets:
    """Refuses the requests of keys that have used up what they may; what they used is read from the store."""

    def __init__(self, limits: SettingsByKey, index: UsageSource, clock: Clock) -> None:
        self._limits = limits
        self._index = index
        self._clock = clock
        self._spending: dict[str, list[CallReservation]] = {}  # calls in progress, by key
        self._sent_s: dict[str, deque[float]] = {}  # by key: when its requests of the last minute came

    def of(self, key: str) -> KeySettings:
        """The limits of a key."""
        return self._limits.get(key) or self._limits.get(EVERY_KEY, _NO_LIMITS)

    def has_limits(self, key: str) -> bool:
        """Whether anything limits a key."""
        limits = self.of(key)
        return limits.has_budget or limits.requests_per_minute > 0

    def unknown(self, keys: Container[str]) -> list[str]:
        """The names with limits that no key has."""
        return [name for name in self._limits if name != EVERY_KEY and name not in keys]

    async def check(self, key: str) -> None:
        """Count a request; raises a Problem if the key is over a limit.

        A run's usage isn't known in advance, so active runs can exceed the budget.
        """
        async with self.spending(key, _NOTHING):
            pass

    @asynccontextmanager
    async def spending(self, key: str, most: CallReservation) -> AsyncGenerator[None]:
        """Count a request and reserve its maximum usage while the block runs; raises a Problem like `check`.

        Only earlier calls are counted against it, so a call with a high estimate isn't starved.
        """
        limits = self.of(key)
        if limits.requests_per_minute:
            self._check_rate(key, limits.requests_per_minute)
        if not limits.has_budget:
            yield
            return
        others = list(self._spending.get(key, ()))
        mine = self._spending.setdefault(key, [])
        mine.append(most)
        try:
            used = await self._used_today(key)
            self._check_budget(key, limits, used)
            _check_others(key, limits, used, others)
            yield
        finally:
            mine.remove(most)

    async def budgets_of(self, keys: Iterable[str]) -> list[KeyBudget]:
        """Return the budgets of those keys that have one."""
        return [
            KeyBudget(key, limits, await self._used_today(key), self._resets_at_ms())
            for key in keys
            if (limits := self.of(key)).has_budget
        ]

    async def _used_today(self, key: str) -> UsageSum:
        today = self._clock.now_ms() // DAY_MS
        used = await self._index.usage(UsageQuery("all", today, today, api_key=key))
        return used[0] if used else UsageSum("")

    def _resets_at_ms(self) -> int:
        return (self._clock.now_ms() // DAY_MS + 1) * DAY_MS

    def _check_budget(self, key: str, limits: KeySettings, used: UsageSum) -> None:
        tokens = used.input_tokens + used.output_tokens
        if limits.budget_usd_per_day and (used.cost_usd or 0.0) >= limits.budget_usd_per_day:
            spent = f"${limits.budget_usd_per_day:.2f} for today (UTC)"
            setting = "budget_usd_per_day"
        elif limits.budget_tokens_per_day and tokens >= limits.budget_tokens_per_day:
            spent = f"{limits.budget_tokens_per_day} tokens for today (UTC)"
            setting = "budget_tokens_per_day"
        else:
            return
        left_s = -(-(self._resets_at_ms() - self._clock.now_ms()) // 1000)
        hours, minutes = divmod(left_s // 60, 60)
        raise Problem(
            429,
            f"The key '{key}' has used up its budget of {spent}. It resets at 00:00 UTC, in {hours} h "
            f"{minutes} min. To allow more, raise {setting} for this key in the configuration",
            code="budget_exhausted",
            # A package would ask again within seconds, and get the same response.
            headers={"Retry-After": str(left_s), "X-Should-Retry": "false"},
        )

    def _check_rate(self, key: str, most: int) -> None:
        now_s = self._clock.steady_s()
        sent_s = self._sent_s.setdefault(key, deque(maxlen=most))
        while sent_s and now_s - sent_s[0] >= MINUTE_S:
            sent_s.popleft()
        if len(sent_s) < most:
            sent_s.append(now_s)
            return
        left_s = int(MINUTE_S - (now_s - sent_s[0])) + 1
        raise Problem(
            429,
            f"The key '{key}' has reached its limit of {most} requests per minute. Try again in {left_s} s",
            code="too_many_requests",
            headers={"Retry-After": str(left_s)},
        )


def _check_others(key: str, limits: KeySettings, used: UsageSum, others: list[CallReservation]) -> None:
    """Refuse a call if calls in progress might use up the rest of the budget."""
    tokens = used.input_tokens + used.output_tokens + sum(one.tokens for one in others)
    usd = (used.cost_usd or 0.0) + sum(one.usd for one in others)
    is_over = (limits.budget_tokens_per_day and tokens >= limits.budget_tokens_per_day) or (
        limits.budget_usd_per_day and usd >= limits.budget_usd_per_day
    )
    if others and is_over:
        raise Problem(
            429,
            f"Calls in progress might use up today's budget for key '{key}'. Try again when they end",
            code="budget_in_use",
            headers={"Retry-After": str(_OTHERS_END_S)},
        )


class UploadQuota:
    """Counts the bytes that each key has sent today (UTC), since the server started."""

    def __init__(self, clock: Clock, bytes_per_day: int) -> None:
        self._clock = clock
        self._bytes_per_day = bytes_per_day  # 0: no limit
        self._day = 0
        self._used: Counter[str] = Counter()

    def add(self, size_bytes: int) -> None:
        """Count what the caller stores; raises a Problem, and counts nothing, if it's too much for today."""
        day, passed_ms = divmod(self._clock.now_ms(), DAY_MS)
        if day != self._day:
            self._day = day
            self._used.clear()
        key = caller_name()
        if self._bytes_per_day and self._used[key] + size_bytes > self._bytes_per_day:
            raise too_many(
                f"The key '{key}' has reached today's limit of {self._bytes_per_day} bytes of attachments "
                "(`server.limits.upload_bytes_per_day`). It resets at 00:00 UTC",
                code="upload_quota_reached",
                retry_after_s=(DAY_MS - passed_ms) // 1000 + 1,
            )
        self._used[key] += size_bytes
