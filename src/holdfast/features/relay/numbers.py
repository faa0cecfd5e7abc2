"""The numbers of a client's request; impossible ones are refused, because budgets rely on them."""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import msgspec

from holdfast.server.problems import bad_request

COUNT_MAX = 10**9
_PENALTY_MAX = 100.0


class Range(NamedTuple):
    """The values that a number can have on any server; a provider may allow fewer."""

    low: float
    high: float
    is_whole: bool = True

    def has(self, value: object) -> bool:
        """Whether the value is a number of this range."""
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not self.low <= value <= self.high
        ):
            return False
        return not self.is_whole or value == int(value)

    def __str__(self) -> str:
        """The range in words."""
        kind = "whole number" if self.is_whole else "number"
        return f"a {kind} from {self.low:,.10g} to {self.high:,.10g}"


TOKENS = Range(0, COUNT_MAX)
UNLIMITED_TOKENS = Range(-1, COUNT_MAX)  # llama.cpp and LM Studio read -1 as no limit
ANSWERS = Range(1, 10_000)
SHARE = Range(0, 1, is_whole=False)
PENALTY = Range(-_PENALTY_MAX, _PENALTY_MAX, is_whole=False)

RANGES: Mapping[str, Range] = {
    "max_tokens": UNLIMITED_TOKENS,
    "max_completion_tokens": UNLIMITED_TOKENS,
    "max_output_tokens": TOKENS,
    "n": ANSWERS,
    "best_of": ANSWERS,
    "temperature": Range(0, 100, is_whole=False),
    "top_p": SHARE,
    "min_p": SHARE,
    "top_k": Range(-1, COUNT_MAX),
    "presence_penalty": PENALTY,
    "frequency_penalty": PENALTY,
    "repetition_penalty": PENALTY,
    "seed": Range(-(2**63), 2**64),
    "top_logprobs": Range(-1, COUNT_MAX),
    "min_tokens": TOKENS,
    "max_tool_calls": TOKENS,
    "dimensions": Range(1, COUNT_MAX),
}
INNER_RANGES: Mapping[str, Mapping[str, Range]] = {
    "thinking": {"budget_tokens": TOKENS},
    "reasoning": {"max_tokens": TOKENS},
}


class Numbers(msgspec.Struct):
    """The fields of a request that have numbers; of any type, until they are checked."""

    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    n: Any = None
    best_of: Any = None
    temperature: Any = None
    top_p: Any = None
    min_p: Any = None
    top_k: Any = None
    presence_penalty: Any = None
    frequency_penalty: Any = None
    repetition_penalty: Any = None
    seed: Any = None
    top_logprobs: Any = None
    min_tokens: Any = None
    max_tool_calls: Any = None
    dimensions: Any = None
    thinking: Any = None
    reasoning: Any = None

    def check(self) -> None:
        """Raise a Problem that names a number which no server can honor."""
        for name, allowed in RANGES.items():
            value = getattr(self, name)
            if value is not None:
                _check(value, allowed, param=name)
        for outer, ranges in INNER_RANGES.items():
            inside = _table(getattr(self, outer))
            for name, allowed in ranges.items():
                _check(inside.get(name), allowed, param=f"{outer}.{name}")

    @property
    def output_tokens_max(self) -> int:
        """The most tokens of one answer, thinking included; 0 if the request sets no limit."""
        budget = _table(self.thinking).get("budget_tokens")
        limits = (self.max_tokens, self.max_completion_tokens, self.max_output_tokens, budget)
        return max(0, 0, *map(int, filter(None, limits)))

    @property
    def answers(self) -> int:
        """How many answers the provider makes."""
        return max(int(self.n or 1), int(self.best_of or 1))


def _table(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _check(value: object, allowed: Range, *, param: str) -> None:
    if value is not None and not allowed.has(value):
        raise bad_request(f"'{param}' must be {allowed}", param=param)
