"""Token counts as servers of all wires give them, into counts that add up."""

from typing import TypeAlias

from holdfast.model_events import TokensUsed

Count: TypeAlias = int | float | None

COUNT_MAX = 10**12  # more than any window or any month of answers


def tokens_used(
    *, sent: Count, made: Count, cached: Count = None, written: Count = None, reasoning: Count = None
) -> TokensUsed:
    """The counts in our terms, where what was cached or written to the cache is a part of what was sent."""
    cached_tokens, written_tokens = _count(cached), _count(written)
    input_tokens = _count(sent)
    if cached_tokens > input_tokens:
        input_tokens += cached_tokens  # a server that counts apart what it had cached
    return TokensUsed(
        input_tokens=max(input_tokens, cached_tokens + written_tokens),
        output_tokens=_count(made),
        cached_tokens=cached_tokens,
        cache_write_tokens=written_tokens,
        reasoning_tokens=_count(reasoning),
    )


def _count(given: Count) -> int:
    return int(max(0, min(given or 0, COUNT_MAX)))
