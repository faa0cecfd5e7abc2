"""The facts in an error body of any shape: its codes, times, status and text.

When a provider says that it may be asked again: turns headers and body fields into one wait.
"""

import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TypeAlias

import msgspec

from holdfast.model_events import ErrorReported

Json: TypeAlias = "Node | str | int | float | bool | None"
Node: TypeAlias = dict[str, Json] | list[Json]

BODY_CHARS_MAX = 65_536
DEPTH_MAX = 8
CODE_CHARS_MAX = 120
NODES_MAX = 500
STATUS_MIN = 300  # an error inside a successful response has its real status in the body
TEXT_CHARS_MAX = 2_000

MARK_KEYS = frozenset(
    {"__type", "code", "error_code", "error_type", "errortype", "limit_source", "reason", "status", "type"}
)
MESSAGE_KEYS = frozenset({"detail", "error", "error_message", "errormessage", "message", "msg", "raw"})
STATUS_KEYS = frozenset({"code", "httpstatuscode", "raw_status_code", "status", "status_code"})
TIME_KEYS = frozenset(
    {
        "resets_at",
        "resets_in_seconds",
        "retry_after",
        "retry_after_ms",
        "retry_after_seconds",
        "retrydelay",
        "x-ratelimit-reset",
    }
)
# A quota that resets tomorrow is exhausted for any wait that we would make.
PER_DAY = "quota_per_day"


class ErrorFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One error: `codes` are its codes, types and reasons in lower case, `text` is its original text."""

    text: str = ""
    codes: frozenset[str] = frozenset()
    status: int = 0
    times: dict[str, str | int | float] = {}
    page: bool = False


NO_ERROR = ErrorFacts()


class _Found(msgspec.Struct):
    """The facts collected so far while walking a body."""

    messages: list[str]
    codes: set[str]
    times: dict[str, str | int | float]
    status: int = 0


def error_facts(error: ErrorReported | None) -> ErrorFacts:
    """The facts of a reported error: from its body, completed by what the wire adapter read."""
    if error is None:
        return NO_ERROR
    body = error.body[:BODY_CHARS_MAX].strip().removeprefix("data:").strip()
    found = _Found([], set(), {})
    decoded = _decoded(body)
    if decoded is None:
        found.messages.append(_title(body) if body.startswith("<") else body)
    else:
        _gather(decoded, found)
    found.codes |= {code.lower()[:CODE_CHARS_MAX] for code in (error.code, error.kind) if code}
    if not any(said and (said in error.message or error.message in said) for said in found.messages):
        found.messages.append(error.message)
    return ErrorFacts(
        text="; ".join(dict.fromkeys(said for said in found.messages if said))[:TEXT_CHARS_MAX],
        codes=frozenset(found.codes),
        status=error.status if error.status >= STATUS_MIN else found.status,
        times=found.times,
        page=body.startswith("<"),
    )


def _decoded(text: str) -> Node | None:
    """The JSON value of a text that is an object or a list, else None."""
    if text[:1] not in {"{", "["}:
        return None
    try:
        value: Node = msgspec.json.decode(text.encode(errors="replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return value


def _gather(root: Node, found: _Found) -> None:
    """Collect breadth-first, so that the provider's own text comes before what it passes on."""
    queue: deque[tuple[int, Node]] = deque([(0, root)])
    for _ in range(NODES_MAX):
        if not queue:
            return
        depth, node = queue.popleft()
        for key, child in _children(node):
            inner = _decoded(child.strip()) if isinstance(child, str) and key in MESSAGE_KEYS else None
            if inner is not None:
                child = inner  # noqa: PLW2901  # a body sent as a string is a body
            if isinstance(child, dict | list):
                if depth < DEPTH_MAX:
                    queue.append((depth + 1, child))
            elif isinstance(child, str | int | float) and not isinstance(child, bool):
                _note(key, child, found=found)


def _children(node: Node) -> Iterator[tuple[str, Json]]:
    if isinstance(node, dict):
        return ((key.lower(), child) for key, child in node.items())
    return (("", child) for child in node)


def _note(key: str, value: str | float, *, found: _Found) -> None:
    text = str(value)
    if key in MARK_KEYS:
        # AWS puts the name after a namespace and a number sign.
        found.codes.add(text.rpartition("#")[2].lower()[:CODE_CHARS_MAX])
    if key == "quotaid" and "perday" in text.lower():
        found.codes.add(PER_DAY)
    if key in STATUS_KEYS and not found.status:
        found.status = _status(text)
    if key in TIME_KEYS:
        found.times.setdefault(key, value)
    if key in MESSAGE_KEYS and isinstance(value, str):
        found.messages.append(value.strip()[:TEXT_CHARS_MAX])


def _status(text: str) -> int:
    is_error = len(text) == len("400") and text.isdecimal() and text.isascii() and text[0] in "45"
    return int(text) if is_error else 0


def _title(page: str) -> str:
    """The title of an HTML page, which is all that's worth reading in it."""
    lower = page[:BODY_CHARS_MAX].lower()
    start = lower.find("<title>")
    end = lower.find("</title>")
    return " ".join(page[start + len("<title>") : end].split()) if 0 <= start < end else ""


DAY_MS = 86_400_000
WAIT_MS_MAX = 30 * DAY_MS
UNIX_S_MIN = 1_000_000_000
UNIX_MS_MIN = 100_000_000_000
TEXT_STATUSES = frozenset({429, 503})
LIMITED = 429
EMPTY = re.compile("0")
ANY = re.compile(".*", re.DOTALL)
VALUE_CHARS_MAX = 64

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_HTTP_DATE = re.compile(
    r"[a-z]{3}, (\d{2}) ([a-z]{3}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) gmt", re.ASCII | re.IGNORECASE
)
_DURATION = re.compile(
    r"(?:(\d{1,3})d)?(?:(\d{1,4})h)?(?:(\d{1,6})m)?(?:(\d{1,8}(?:\.\d{1,12})?)s)?(?:(\d{1,9}(?:\.\d{1,12})?)ms)?",
    re.ASCII,
)
_IN_WORDS = re.compile(
    r"(?:try again|retry) (?:in|after) (\d{1,8}(?:\.\d{1,12})?(?:ms|m\d{1,2}(?:\.\d{1,12})?s|s| seconds?\b))",
    re.ASCII,
)
_UNITS_MS = (DAY_MS, 3_600_000, 60_000, 1_000, 1)

Reader = Callable[[Mapping[str, str], ErrorFacts, int], float | None]


def server_time(headers: Mapping[str, str], error: ErrorFacts, *, now_ms: int, status: int = 0) -> int | None:
    """The wait that the provider asks for; None if it names none that makes sense.

    Header names are in lower case. What is meant for this request wins over what describes a whole account:
    exact milliseconds, then Retry-After, then the body's own fields, then the reset of an exhausted bucket,
    which is the time of a full refill and so the longest. Relative times win over dates, because clocks
    differ. A date is relative to the Date header of the same response, or else to our own clock. Text comes
    last, and only for errors that are about waiting. Buckets that aren't empty count only for errors about a
    limit.
    """
    sent_ms = _http_date_ms(headers.get("date", ""))
    now_ms = now_ms if sent_ms is None else int(sent_ms)
    ways = [read(headers, error, now_ms) for read in READERS]
    if status in TEXT_STATUSES:
        ways.append(_in_words(error.text))
    if status == LIMITED:
        ways.append(min(_resets(headers, now_ms, left=ANY), default=None))
    return next((math.ceil(ms) for ms in ways if ms is not None and 0 < ms <= WAIT_MS_MAX), None)


def _in_words(text: str) -> float | None:
    said = _IN_WORDS.search(text.lower())
    return _duration_ms(said.group(1).replace(" seconds", "s").replace(" second", "s")) if said else None


def _header_ms(headers: Mapping[str, str], _error: ErrorFacts, _now_ms: int) -> float | None:
    return _number(headers.get("retry-after-ms", ""))


def _retry_after(headers: Mapping[str, str], _error: ErrorFacts, now_ms: int) -> float | None:
    value = headers.get("retry-after", "")
    seconds = _number(value)
    if seconds is not None:
        return seconds * 1000
    at_ms = _http_date_ms(value)
    return None if at_ms is None else at_ms - now_ms


def _body_ms(_headers: Mapping[str, str], error: ErrorFacts, _now_ms: int) -> float | None:
    return _number(str(error.times.get("retry_after_ms", "")))


def _body_relative(_headers: Mapping[str, str], error: ErrorFacts, _now_ms: int) -> float | None:
    for key in ("resets_in_seconds", "retry_after_seconds", "retry_after", "retrydelay"):
        value = str(error.times.get(key, ""))
        seconds = _number(value)
        wait_ms = _duration_ms(value) if seconds is None else seconds * 1000
        if wait_ms is not None:
            return wait_ms
    return None


def _body_date(_headers: Mapping[str, str], error: ErrorFacts, now_ms: int) -> float | None:
    for key in ("resets_at", "x-ratelimit-reset"):
        wait_ms = _reset_ms(str(error.times.get(key, "")), now_ms=now_ms)
        if wait_ms is not None:
            return wait_ms
    return None


def _empty_buckets(headers: Mapping[str, str], _error: ErrorFacts, now_ms: int) -> float | None:
    """The latest reset among the empty buckets; providers list all buckets in every response."""
    return max(_resets(headers, now_ms, left=EMPTY), default=None)


def _resets(headers: Mapping[str, str], now_ms: int, *, left: re.Pattern[str]) -> list[float]:
    """How long until each bucket with this much left is full again."""
    found: list[float] = []
    for name, value in headers.items():
        bucket = _bucket_of(name)
        if bucket is None or left.fullmatch(headers.get(bucket, "").strip()) is None:
            continue
        wait_ms = _reset_ms(value, now_ms=now_ms)
        if wait_ms is not None and wait_ms > 0:
            found.append(wait_ms)
    return found


def _bucket_of(name: str) -> str | None:
    """The header that says how much is left in the bucket of this reset header."""
    if name.startswith("x-ratelimit-reset"):
        return name.replace("reset", "remaining", 1)
    if name.startswith("anthropic-ratelimit-") and name.endswith("-reset"):
        return name.removesuffix("reset") + "remaining"
    return None


READERS: tuple[Reader, ...] = (
    _header_ms,
    _retry_after,
    _body_ms,
    _body_relative,
    _body_date,
    _empty_buckets,
)


def _reset_ms(value: str, *, now_ms: int) -> float | None:
    """A reset given as a duration, Unix seconds or milliseconds, an ISO date, or plain seconds."""
    number = _number(value)
    if number is not None:
        if number >= UNIX_MS_MIN:
            return number - now_ms
        return number * 1000 - now_ms if number >= UNIX_S_MIN else number * 1000
    wait_ms = _duration_ms(value)
    if wait_ms is not None:
        return wait_ms
    at_ms = _iso_ms(value)
    return None if at_ms is None else at_ms - now_ms


def _number(value: str) -> float | None:
    try:
        number = float(value.strip()[:VALUE_CHARS_MAX])
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _duration_ms(value: str) -> float | None:
    found = _DURATION.fullmatch(value.strip()[:VALUE_CHARS_MAX])
    if found is None or not any(found.groups()):
        return None
    return round(
        sum(float(part or 0) * unit for part, unit in zip(found.groups(), _UNITS_MS, strict=True)), 6
    )


def _http_date_ms(value: str) -> float | None:
    found = _HTTP_DATE.fullmatch(value.strip()[:VALUE_CHARS_MAX])
    if found is None or found.group(2).lower() not in MONTHS:
        return None
    day, year, hour, minute, second = (int(found.group(group)) for group in (1, 3, 4, 5, 6))
    month = MONTHS.index(found.group(2).lower()) + 1
    try:
        at = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return at.timestamp() * 1000


def _iso_ms(value: str) -> float | None:
    try:
        at = datetime.fromisoformat(value.strip()[:VALUE_CHARS_MAX])
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000
    except (ValueError, OverflowError):
        return None
