"""When a trigger is due: the instants of cron expressions, intervals and single times, in milliseconds.

The library `cronsim` reads expressions and finds local times that match. What daylight saving makes of them
is decided here, for expressions with and without seconds:

- Fixed times, in which neither minute nor hour begins with `*`, happen once. One that a gap swallows happens
  at its end, and one in a repeated hour happens the first time.
- Everything else follows elapsed time: it happens whenever the clock on the wall shows it.

How people and programs write down when a trigger fires.

Time zones by name, from the system's database or the one that comes with the package.
"""

import re
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import count, islice, takewhile
from typing import TypeAlias
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from msgspec import Struct

from holdfast.decisions.hook_signatures import HookSignature
from holdfast.features.automations.values import AfterRun, AtTime, CronTimes, EveryTimes, OnWebhook, When

EXPRESSION_CHARS_MAX = 200
EVERY_MS_MIN = 1_000
COUNTED_MAX = 10_000  # instants that are counted one by one
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # local times have no zone here
_UTC_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND, _DAY = timedelta(seconds=1), timedelta(days=1)
# How far back the newest instant is looked for, each time further; leap days are eight years apart at most.
_LOOKS_BACK_MS = (60_000, 3_600_000, 86_400_000, 40 * 86_400_000, 400 * 86_400_000, 3_000 * 86_400_000)


class BadSchedule(ValueError):
    """A time that can't be understood or never comes; the text says which part is wrong."""


class CronSchedule(Struct, frozen=True):
    """A cron expression with five fields, or six with seconds first, in a time zone."""

    expression: str
    zone: tzinfo

    def __post_init__(self) -> None:
        if len(self.expression) > EXPRESSION_CHARS_MAX:
            raise BadSchedule(f"a cron expression can have up to {EXPRESSION_CHARS_MAX} characters")
        self._local_times(_EPOCH)

    def after(self, after_ms: int) -> int | None:
        """The first instant after this one; None if there is none in the next 50 years."""
        return next(self.instants(after_ms), None)

    def instants(self, after_ms: int) -> Iterator[int]:
        """All instants after this one, in order."""
        return self._fixed(after_ms) if self._is_fixed else self._elapsed(after_ms)

    @property
    def _is_fixed(self) -> bool:
        minute, hour = self.expression.split()[-5:-3]
        return not minute.startswith("*") and not hour.startswith("*")

    def _local_times(self, after: datetime) -> Iterator[datetime]:
        """Local times after this one that the expression matches, as if the clock were never changed."""
        try:
            return CronSim(self.expression, after)
        except (CronSimError, ValueError, AssertionError) as error:
            why = str(error) or "it can't be read"
            raise BadSchedule(f"the cron expression {self.expression!r} is wrong: {why}") from error

    def _fixed(self, after_ms: int) -> Iterator[int]:
        last_ms = after_ms
        # A day earlier, because a repeated or swallowed hour puts local times out of order.
        for local in self._local_times(self._local(after_ms) - _DAY):
            at_ms = self._first_ms(local)
            if at_ms > last_ms:
                last_ms = at_ms
                yield at_ms

    def _first_ms(self, local: datetime) -> int:
        """When the clock first shows this local time, or what comes after the gap that swallows it."""
        aware = local.replace(tzinfo=self.zone, fold=0)
        at_ms = _ms(aware)
        if self._local(at_ms) == local:
            return at_ms
        # In a gap: before it the offset was smaller, so with that offset the time is as far after it.
        before_ms = at_ms - int(_DAY / timedelta(milliseconds=1))
        return self._change_ms(before_ms, at_ms) or at_ms

    def _elapsed(self, after_ms: int) -> Iterator[int]:
        at_ms = after_ms
        while True:
            offset = self._offset(at_ms)
            change_ms: int | None = None
            for local in self._local_times(self._local(at_ms)):
                due_ms = _local_ms(local) - offset
                change_ms = self._change_ms(at_ms, due_ms)
                if change_ms is not None:
                    break
                at_ms = due_ms
                yield due_ms
            if change_ms is None:
                return
            # From the first second with the new offset, which may itself be a match.
            at_ms = change_ms
            if self._matches(change_ms):
                yield change_ms

    def _matches(self, at_ms: int) -> bool:
        local = self._local(at_ms)
        return next(self._local_times(local - _SECOND), None) == local

    def _change_ms(self, from_ms: int, to_ms: int) -> int | None:
        """The first instant after `from_ms` and up to `to_ms` at which the clock changes."""
        offset, low_ms = self._offset(from_ms), from_ms
        while low_ms < to_ms:
            high_ms = min(low_ms + 86_400_000, to_ms)
            if self._offset(high_ms) != offset:
                break
            low_ms = high_ms
        else:
            return None
        while high_ms - low_ms > 1:
            middle_ms = (low_ms + high_ms) // 2
            if self._offset(middle_ms) == offset:
                low_ms = middle_ms
            else:
                high_ms = middle_ms
        return high_ms

    def _offset(self, at_ms: int) -> int:
        """By how many milliseconds local time is ahead of UTC."""
        return _local_ms(self._local(at_ms)) - at_ms // 1000 * 1000

    def _local(self, at_ms: int) -> datetime:
        """The local time, to the second."""
        utc = _UTC_EPOCH + timedelta(seconds=at_ms // 1000)
        return utc.astimezone(self.zone).replace(tzinfo=None, fold=0)


class EverySchedule(Struct, frozen=True):
    """An interval, counted from when the trigger was made."""

    anchor_ms: int
    every_ms: int

    def __post_init__(self) -> None:
        if self.every_ms < EVERY_MS_MIN:
            raise BadSchedule(f"an interval must be at least {EVERY_MS_MIN // 1000} s")

    def after(self, after_ms: int) -> int | None:
        """The first instant after this one; the anchor itself is none."""
        passed = max(0, (after_ms - self.anchor_ms) // self.every_ms)
        return self.anchor_ms + (passed + 1) * self.every_ms

    def instants(self, after_ms: int) -> Iterator[int]:
        """All instants after this one, in order."""
        first_ms = self.after(after_ms)
        assert first_ms is not None, "there is always a next one"
        return count(first_ms, self.every_ms)


class AtSchedule(Struct, frozen=True):
    """One instant."""

    at_ms: int

    def after(self, after_ms: int) -> int | None:
        """The instant, unless it has passed."""
        return self.at_ms if self.at_ms > after_ms else None

    def instants(self, after_ms: int) -> Iterator[int]:
        """The instant, unless it has passed."""
        return iter(() if self.at_ms <= after_ms else (self.at_ms,))


Schedule: TypeAlias = CronSchedule | EverySchedule | AtSchedule


class PassedInstants(Struct, frozen=True):
    """Instants that have passed: the first, the last, and how many; `is_more` if they weren't all counted."""

    first_ms: int
    last_ms: int
    count: int
    is_more: bool = False


def next_instants(schedule: Schedule, after_ms: int, *, most: int = 5) -> list[int]:
    """The next instants."""
    return list(islice(schedule.instants(after_ms), most))


def passed_instants(schedule: Schedule, after_ms: int, *, before_ms: int) -> PassedInstants | None:
    """The instants after `after_ms` and before `before_ms`, as one stretch; None if there are none."""
    first_ms = schedule.after(after_ms)
    if first_ms is None or first_ms >= before_ms:
        return None
    if isinstance(schedule, EverySchedule):
        more = (before_ms - 1 - first_ms) // schedule.every_ms
        return PassedInstants(first_ms, first_ms + more * schedule.every_ms, more + 1)
    found = list(takewhile(lambda at_ms: at_ms < before_ms, islice(schedule.instants(after_ms), COUNTED_MAX)))
    if len(found) < COUNTED_MAX:
        return PassedInstants(first_ms, found[-1], len(found))
    return PassedInstants(first_ms, _newest(schedule, before_ms), len(found), is_more=True)


def _newest(schedule: Schedule, before_ms: int) -> int:
    """The last instant before this one; there are some."""
    found = (
        deque(
            takewhile(lambda at_ms: at_ms < before_ms, schedule.instants(before_ms - back_ms - 1)), maxlen=1
        )
        for back_ms in _LOOKS_BACK_MS
    )
    return next(newest[0] for newest in found if newest)


def _ms(aware: datetime) -> int:
    return (aware - _UTC_EPOCH) // timedelta(milliseconds=1)


def _local_ms(local: datetime) -> int:
    return (local - _EPOCH) // timedelta(milliseconds=1)


_UNITS_S = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_LENGTH = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_YEAR_9999_MS = 253_370_764_800_000


class WhenFields(Struct, frozen=True, kw_only=True):
    """The fields of which a trigger has exactly one; `zone` belongs to `cron` and to `at`."""

    cron: str = ""
    every: str = ""
    at: str = ""
    after: str = ""
    webhook: HookSignature | None = None
    zone: str = ""


def when_of(fields: WhenFields) -> When:
    """Parse the schedule; raises BadSchedule unless exactly one field is set and valid."""
    given = [
        name
        for name in ("cron", "every", "at", "after", "webhook")
        if getattr(fields, name) not in {"", None}
    ]
    if len(given) != 1:
        raise BadSchedule("say exactly one of cron, every, at, after and webhook")
    match given[0]:
        case "cron":
            return CronTimes(expression=" ".join(fields.cron.split()), zone=fields.zone or "UTC")
        case "every":
            return EveryTimes(seconds=seconds_of(fields.every))
        case "at":
            return AtTime(at_ms=_ms_of(fields.at))
        case "after":
            return AfterRun(session_id=fields.after)
        case _:
            return OnWebhook(signature=fields.webhook or "bearer")


def seconds_of(text: str) -> float:
    """The length of a time such as `90`, `2m` or `1h30m`; raises BadSchedule."""
    said = text.strip().lower()
    found = _LENGTH.fullmatch(f"{said}s" if _is_number(said) else said)
    parts = [float(part or 0) for part in found.groups()] if found else []
    seconds = sum(part * unit for part, unit in zip(parts, _UNITS_S.values(), strict=False))
    if not 0 < seconds <= 366 * 86_400:
        raise BadSchedule(f"{text[:50]!r} isn't a length of time; examples are 90s, 15m, 1h30m and 2d")
    return seconds


def _ms_of(text: str) -> int:
    """A point in time: ISO 8601 with its offset, or seconds of Unix time."""
    try:
        at_ms = round(1000 * float(text)) if _is_number(text) else _iso_ms(text)
    except (ValueError, OverflowError) as error:
        raise BadSchedule(
            f"{text[:50]!r} isn't a point in time; an example is 2027-01-31T08:00:00+01:00"
        ) from error
    if not 0 < at_ms <= _YEAR_9999_MS:
        raise BadSchedule(f"{text[:50]!r} is too far away")
    return at_ms


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal() and text.isascii()


def _iso_ms(text: str) -> int:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError("without an offset, the time is ambiguous")
    return round(1000 * at.timestamp())


def schedule_text(when: When) -> str:
    """When it fires, for people."""
    match when:
        case CronTimes():
            return f"cron {when.expression} ({when.zone})"
        case EveryTimes():
            return f"every {length(when.seconds)}"
        case AtTime():
            return f"at {iso(when.at_ms)}"
        case OnWebhook():
            return f"webhook ({when.signature})"
        case _:
            return f"after each run of {when.session_id}"


def length(seconds: float) -> str:
    """A length of time as it is written down."""
    parts: list[str] = []
    left = seconds
    for unit, unit_s in _UNITS_S.items():
        count, left = (left, 0.0) if unit_s == 1 else divmod(left, unit_s)
        if count:
            parts.append(f"{count:g}{unit}")
    return "".join(parts)


def iso(at_ms: int) -> str:
    """A point in time in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def zone_named(name: str) -> tzinfo:
    """The time zone; raises BadSchedule. Reads a file."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise BadSchedule(f"there is no time zone {name[:100]!r}; an example is Europe/Berlin") from error
