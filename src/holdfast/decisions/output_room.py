"""How many tokens a provider's error text leaves for an answer: its window minus the request, or its cap."""

import re

ROOM_TOKENS_MIN = 1_024  # less than this isn't enough for an answer

_WINDOW = r"maximum context length is (?P<window>\d{1,9}) tokens"
_USED = r"(?P<used>\d{1,9})"
_ANY = r"\d{1,9}"
_PARTS = (
    rf"\({_USED} (?:in the messages|of text input)(?:, (?P<more>{_ANY}) (?:in the functions|of tool input))?"
)

WINDOWS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        rf"exceed context limit: {_USED} \+ {_ANY} > (?P<window>\d{{1,9}})",
        rf"{_WINDOW} and your request has {_USED} input",
        rf"{_WINDOW}\. however, you requested {_ANY} output tokens and your prompt contains at least {_USED}",
        rf"{_WINDOW}\. however, you requested (?:about )?{_ANY} tokens {_PARTS}",
    )
)
CAPS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        r"supports at most (?P<cap>\d{1,9}) completion tokens",
        r"max_tokens: \d{1,9} > (?P<cap>\d{1,9}), which is the maximum",
        r"valid range of max_tokens is \[1, (?P<cap>\d{1,9})\]",
        r"max_(?:completion_)?tokens[^.]{0,60} must be less than or equal to `?(?P<cap>\d{1,9})",
        r"maximum tokens you requested exceeds? the model limit of (?P<cap>\d{1,9})",
    )
)


def output_room(text: str) -> int | None:
    """The number of tokens that a text in lower case leaves for an answer; None if it doesn't say."""
    for pattern in WINDOWS:
        found = pattern.search(text)
        if found:
            used = int(found["used"]) + int(found.groupdict().get("more") or 0)
            return int(found["window"]) - used
    for pattern in CAPS:
        found = pattern.search(text)
        if found:
            return int(found["cap"])
    return None
