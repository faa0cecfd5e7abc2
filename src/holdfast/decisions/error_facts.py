"""The facts in an error body of any shape: its codes, times, status and text."""

from collections import deque
from collections.abc import Iterator
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
