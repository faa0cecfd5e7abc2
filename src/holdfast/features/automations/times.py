"""How people and programs write down when a trigger fires."""

import re
from datetime import UTC, datetime

from msgspec import Struct

from holdfast.decisions.hook_signatures import HookSignature
from holdfast.features.automations.schedules import BadSchedule
from holdfast.features.automations.values import (
    AfterRun,
    AtTime,
    CronTimes,
    EveryTimes,
    OnWebhook,
    When,
)

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


def said(when: When) -> str:
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
        case AfterRun():
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
