"""When triggers are due, compared with a walk through time that knows nothing of cron libraries."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.features.automations.schedules import (
    COUNTED_MAX,
    AtSchedule,
    BadSchedule,
    CronSchedule,
    EverySchedule,
    next_instants,
    passed_instants,
)

MINUTE = 60_000
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kolkata")
# Around both changes of the clock, the leap day and the end of a year, in each zone.
STARTS = {
    "Europe/Berlin": ("2026-03-28", "2026-10-24"),
    "America/New_York": ("2026-03-07", "2026-10-31"),
    "Australia/Lord_Howe": ("2026-04-04", "2026-10-03"),
    "America/Santiago": ("2026-04-04", "2026-09-05"),  # its gap swallows midnight
    "Asia/Kolkata": ("2028-02-28", "2026-12-31"),
}


def ms(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1000


def values(field: str, low: int, high: int) -> set[int]:
    """What a field of the kinds used here stands for: `*`, `*/n`, numbers, ranges and lists of them."""
    found: set[int] = set()
    for part in field.split(","):
        term, _, step = part.partition("/")
        first, _, last = (f"{low}-{high}" if term == "*" else term).partition("-")
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def walk(expression: str, zone: str, after_ms: int, *, days: int) -> Iterator[int]:
    """Every minute in UTC whose local time matches; fixed times by the rule for daylight saving."""
    minutes, hours, dom, months, dow = expression.split()
    wanted = (
        values(minutes, 0, 59),
        values(hours, 0, 23),
        values(dom, 1, 31),
        values(months, 1, 12),
        {day % 7 for day in values(dow, 0, 7)},
    )
    in_any_case = dom.startswith("*") or dow.startswith("*")

    def fits(local: datetime) -> bool:
        is_dom, is_dow = local.day in wanted[2], local.isoweekday() % 7 in wanted[4]
        is_day = (is_dom and is_dow) if in_any_case else (is_dom or is_dow)
        return is_day and local.month in wanted[3] and local.hour in wanted[1] and local.minute in wanted[0]

    is_fixed = not minutes.startswith("*") and not hours.startswith("*")
    begin_ms = (after_ms // MINUTE - 2 * 1440) * MINUTE
    shown: set[datetime] = set()
    before = _local(begin_ms - MINUTE, zone)
    for at_ms in range(begin_ms, after_ms + days * 86_400_000, MINUTE):
        local = _local(at_ms, zone)
        skipped: list[datetime] = []
        while before + timedelta(minutes=1) < local:
            before += timedelta(minutes=1)
            skipped.append(before)
        is_due = fits(local) and not (is_fixed and local in shown)
        is_due = is_due or (is_fixed and any(fits(one) for one in skipped))
        shown.add(local)
        before = local
        if is_due and at_ms > after_ms:
            yield at_ms


def _local(at_ms: int, zone: str) -> datetime:
    return datetime.fromtimestamp(at_ms // 1000, UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)


@st.composite
def fields(draw: st.DrawFn, low: int, high: int) -> str:
    first = draw(st.integers(low, high))
    last = draw(st.integers(first, high))
    kinds = ("*", f"*/{draw(st.integers(2, 30))}", str(first), f"{first}-{last}", f"{low},{first}")
    return draw(st.sampled_from(kinds))


@st.composite
def expressions(draw: st.DrawFn) -> str:
    days = draw(st.sampled_from(("* * *", "*/2 * *", "* * 0", "* * 1-5", "29 2 *", "1,28,29 * 6")))
    return f"{draw(fields(0, 59))} {draw(fields(0, 23))} {days}"


@given(expressions(), st.sampled_from(ZONES), st.integers(0, 1), st.integers(0, 86_400))
@example("30 2 * * *", "Europe/Berlin", 0, 0)
@example("30 2 * * *", "Europe/Berlin", 1, 3600)
@example("*/10 2 * * *", "Australia/Lord_Howe", 0, 0)
@example("15,45 1-2 * * *", "Australia/Lord_Howe", 1, 0)
@example("*/15 0 * * *", "America/Santiago", 1, 0)
@example("0 0 * * *", "America/Santiago", 1, 0)
@example("*/15 * * * *", "Europe/Berlin", 1, 86_000)
def test_instants_are_those_of_a_walk_through_every_minute(
    expression: str, zone: str, which: int, after_s: int
) -> None:
    """P14: both changes of the clock, several zones, a gap at midnight, and one of half an hour."""
    after_ms = ms(STARTS[zone][which], zone) + 1000 * after_s
    expected = list(islice(walk(expression, zone, after_ms, days=3), 50))
    found = next_instants(CronSchedule(expression, ZoneInfo(zone)), after_ms, most=len(expected) or 1)
    assert [at_ms for at_ms in found if at_ms < after_ms + 3 * 86_400_000] == expected


def test_seconds_come_first_and_fixed_times_with_seconds_follow_the_same_rule() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    after_ms = ms("2026-03-28T12:00", "Europe/Berlin")
    found = next_instants(CronSchedule("30 15 2 * * *", berlin), after_ms, most=2)
    assert found == [ms("2026-03-29T01:00"), ms("2026-03-30T00:15:30")], "the end of the gap is 03:00"
    twice = next_instants(CronSchedule("0 30 2 * * *", berlin), ms("2026-10-24T12:00"), most=2)
    assert twice == [ms("2026-10-25T00:30"), ms("2026-10-26T01:30")]
    assert next_instants(CronSchedule("*/20 * * * * *", berlin), after_ms + 1, most=2) == [
        after_ms + 20_000,
        after_ms + 40_000,
    ]


def test_the_leap_day_comes_every_four_years() -> None:
    found = next_instants(CronSchedule("0 8 29 2 *", UTC), ms("2026-01-01"), most=2)
    assert found == [ms("2028-02-29T08:00"), ms("2032-02-29T08:00")]


@pytest.mark.parametrize(
    "expression",
    ["", "* * * *", "60 * * * *", "a b c d e", "0 0 30 2 *", "* * * * * * *", "*" * 201, "0 0 L/2 # *"],
)
def test_an_expression_that_cannot_be_read_is_refused_with_a_reason(expression: str) -> None:
    with pytest.raises(BadSchedule) as caught:
        CronSchedule(expression, UTC)
    assert "cron expression" in str(caught.value)


@given(st.text(alphabet="0123456789*/-,#LW ", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        CronSchedule(text, UTC).after(ms("2026-01-01"))
    except BadSchedule:
        return


def test_an_expression_that_never_comes_has_no_instant() -> None:
    assert CronSchedule("0 0 31 2 1#5", UTC).after(ms("2026-01-01")) is not None, "either day is enough"
    for never in ("0 0 */40 * 1L", "* * */40 * 1L"):  # a first day of the month that is its last Monday
        assert CronSchedule(never, UTC).after(ms("2026-01-01")) is None
    assert next_instants(AtSchedule(5), 5) == []
    assert next_instants(AtSchedule(5), 4) == [5]


def test_intervals_are_counted_from_their_anchor_however_late_it_is() -> None:
    every = EverySchedule(1_000, 5_000)
    assert next_instants(every, 0, most=2) == [6_000, 11_000]
    assert next_instants(every, 6_000, most=2) == [11_000, 16_000]
    with pytest.raises(BadSchedule):
        EverySchedule(0, 999)


def test_what_has_passed_is_one_stretch_however_much_it_is() -> None:
    """P14: bounded, also for years of seconds."""
    every = EverySchedule(0, 1_000)
    year = passed_instants(every, 0, before_ms=31_536_000_000)
    assert year is not None
    assert (year.first_ms, year.last_ms, year.count) == (1_000, 31_535_999_000, 31_535_999)
    assert passed_instants(every, 0, before_ms=1_000) is None
    assert passed_instants(AtSchedule(7), 0, before_ms=100) == passed_instants(AtSchedule(7), 6, before_ms=8)
    minutes = passed_instants(CronSchedule("*/5 * * * *", UTC), 0, before_ms=16 * MINUTE)
    assert minutes is not None
    assert (minutes.first_ms, minutes.last_ms, minutes.count, minutes.is_more) == (
        5 * MINUTE,
        15 * MINUTE,
        3,
        False,
    )
    seconds = passed_instants(CronSchedule("* * * * * *", UTC), 0, before_ms=ms("1970-01-02"))
    assert seconds is not None
    assert (seconds.count, seconds.is_more) == (COUNTED_MAX, True)
    assert seconds.last_ms == ms("1970-01-01T23:59:59")
    hourly = passed_instants(CronSchedule("* 0 * * * *", UTC), 0, before_ms=ms("1970-02-01T12:30"))
    assert hourly is not None
    assert hourly.last_ms == ms("1970-02-01T12:00:59")
