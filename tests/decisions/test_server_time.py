"""Server times: every way to say it, which one wins, and what is ignored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.decisions.error_facts import WAIT_MS_MAX, ErrorFacts, server_time

NOW_MS = 1_750_000_000_000  # 2025-06-15T15:06:40Z
DATE = "Sun, 15 Jun 2025 15:07:40 GMT"


def wait(headers: dict[str, str], **times: str | float) -> int | None:
    return server_time(headers, ErrorFacts(times=times), now_ms=NOW_MS, status=429)


def in_words(text: str, *, status: int) -> int | None:
    return server_time({}, ErrorFacts(text=text), now_ms=NOW_MS, status=status)


@pytest.mark.parametrize(
    ("headers", "wait_ms"),
    [
        ({"retry-after": DATE, "date": "Sun, 15 Jun 2025 15:07:10 GMT"}, 30_000),
        ({"retry-after": "Sat, 01 Jan 2000 00:00:09 GMT", "date": "Sat, 01 Jan 2000 00:00:04 GMT"}, 5_000),
        ({"retry-after": DATE, "date": "Sun, 15 Jun 2025 15:07:40 GMT"}, None),
        ({"retry-after": DATE, "date": "today"}, 60_000),
        ({"x-ratelimit-reset": "1750000030", "date": "Sun, 15 Jun 2025 15:06:50 GMT"}, 20_000),
    ],
)
def test_a_date_counts_from_the_clock_that_wrote_it(headers: dict[str, str], wait_ms: int | None) -> None:
    assert wait(headers) == wait_ms


@pytest.mark.parametrize(
    ("headers", "wait_ms"),
    [
        ({"retry-after": "7"}, 7_000),
        ({"retry-after": " 1.5 "}, 1_500),
        ({"retry-after": DATE}, 60_000),
        ({"retry-after": DATE.lower()}, 60_000),
        ({"retry-after-ms": "250"}, 250),
        ({"retry-after-ms": "250", "retry-after": "1"}, 250),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1_000),
        ({"retry-after": "2", "x-ratelimit-reset-tokens": "6m0s"}, 2_000),
        ({"x-ratelimit-reset-tokens": "6m0s"}, 360_000),
        ({"x-ratelimit-reset-requests": "20ms"}, 20),
        ({"x-ratelimit-reset-requests": "1h2m3s"}, 3_723_000),
        ({"x-ratelimit-reset-requests": "1d"}, 86_400_000),
        ({"x-ratelimit-reset": "1750000030"}, 30_000),
        ({"x-ratelimit-reset": "1750000030000"}, 30_000),
        ({"x-ratelimit-reset": "30"}, 30_000),
        ({"anthropic-ratelimit-tokens-reset": "2025-06-15T15:06:50Z"}, 10_000),
        ({"anthropic-ratelimit-tokens-reset": "2025-06-15T15:06:50"}, 10_000),
        (
            {
                "x-ratelimit-reset-tokens": "5s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-requests": "9s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-images": "1h",
                "x-ratelimit-remaining-images": "3",
            },
            9_000,
        ),
        ({"x-ratelimit-reset-tokens": "5s", "x-ratelimit-reset-requests": "9s"}, 5_000),
        (
            {"x-ratelimit-reset-tokens": "5s", "x-ratelimit-reset-requests": "1s"}
            | {"x-ratelimit-remaining-requests": "99"},
            1_000,
        ),
        ({"x-ratelimit-reset-tokens": "5s", "x-ratelimit-remaining-tokens": "7"}, 5_000),
        ({"x-ratelimit-limit-tokens": "5s"}, None),
    ],
)
def test_headers(headers: dict[str, str], wait_ms: int | None) -> None:
    assert wait(headers) == wait_ms


@pytest.mark.parametrize("status", [0, 500, 503, 529])
def test_a_bucket_that_is_not_empty_says_nothing_of_another_failure(status: int) -> None:
    """Every answer of these providers tells of all buckets; a wait of hours, or of none, would follow."""
    full = {"x-ratelimit-reset-requests": "6ms", "x-ratelimit-remaining-requests": "9999"}
    silent = {"anthropic-ratelimit-unified-5h-reset": "1750010000"}
    assert server_time(full | silent, ErrorFacts(), now_ms=NOW_MS, status=status) is None
    empty = {"x-ratelimit-reset-tokens": "4s", "x-ratelimit-remaining-tokens": "0"}
    assert server_time(full | silent | empty, ErrorFacts(), now_ms=NOW_MS, status=status) == 4_000


@pytest.mark.parametrize(
    ("times", "wait_ms"),
    [
        ({"resets_in_seconds": 90}, 90_000),
        ({"resets_at": 1_750_000_090}, 90_000),
        ({"resets_at": "2025-06-15T15:08:10Z"}, 90_000),
        ({"resets_at": 1_750_000_090, "resets_in_seconds": 60}, 60_000),
        ({"retry_after": 3}, 3_000),
        ({"retry_after": "3.5"}, 3_500),
        ({"retry_after_seconds": 4}, 4_000),
        ({"retry_after_ms": 40}, 40),
        ({"retrydelay": "17s"}, 17_000),
        ({"retrydelay": "0.5s"}, 500),
        ({"x-ratelimit-reset": "1750000030000"}, 30_000),
    ],
)
def test_fields_of_the_body(times: dict[str, str | float], wait_ms: int) -> None:
    assert wait({}, **times) == wait_ms
    assert wait({"retry-after": "1"}, **times) == 1_000
    assert wait({"x-ratelimit-reset-tokens": "2h"}, **times) == wait_ms


@pytest.mark.parametrize(
    ("text", "wait_ms"),
    [
        ("Please try again in 1.2s. Visit", 1_200),
        ("Please try again in 494ms.", 494),
        ("Please try again in 9m38.016s.", 578_016),
        ("Please retry in 45.578569677s.", 45_579),
        ("Please retry after 12 seconds.", 12_000),
        ("Try again in 1 second", 1_000),
        ("try again in a moment", None),
        ("try again in 0s", None),
    ],
)
def test_words_count_where_waiting_is_the_matter(text: str, wait_ms: int | None) -> None:
    assert in_words(text, status=429) == wait_ms
    rather = {"x-ratelimit-reset-requests": "6ms", "x-ratelimit-remaining-requests": "9999"}
    found = server_time(rather, ErrorFacts(text=text), now_ms=NOW_MS, status=429)
    assert found == (wait_ms or 6)
    assert in_words(text, status=400) is None


@pytest.mark.parametrize(
    "value",
    ["-5", "0", "nan", "inf", "1e400", "", "soon", str(31 * 86_400), "Sun, 15 Jun 2025 15:05:40 GMT",
     "Sun, 15 Foo 2025 15:05:40 GMT", "Sun, 31 Feb 2026 15:05:40 GMT", "9" * 500],
)  # fmt: skip
def test_what_makes_no_sense_is_ignored(value: str) -> None:
    assert wait({"retry-after": value}) is None
    assert wait({"retry-after": value}, retry_after=2) == 2_000


@pytest.mark.parametrize(
    "value", ["s", "-1s", "5x", "1970-01-01T00:00:00Z", "9999-99-99", "5m5m", "-0001-01-01"]
)
def test_a_bucket_that_makes_no_sense_is_ignored(value: str) -> None:
    assert wait({"x-ratelimit-reset-tokens": value}) is None


@given(st.text(max_size=80))
def test_any_value_is_read_without_raising(value: str) -> None:
    headers = {"retry-after": value, "x-ratelimit-reset-tokens": value, "retry-after-ms": value}
    error = ErrorFacts(text=value, times={"resets_at": value, "retrydelay": value})
    found = server_time(headers, error, now_ms=NOW_MS, status=429)
    assert found is None or 0 < found <= WAIT_MS_MAX
