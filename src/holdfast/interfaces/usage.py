"""How much was used: what can be asked, and what is answered."""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec
from msgspec import Struct


class UsageQuery(Struct, frozen=True):
    """What to add up, over days counted from 1970 (UTC), both included; with `api_key`, only of that key."""

    by: Literal["day", "target", "session", "key", "all"]
    first_day: int
    last_day: int
    api_key: str | None = None  # not with "session"
    limit: int = 1000


class UsageSum(msgspec.Struct, frozen=True):
    """The usage of one day, target, session or key; a day is named by number, a session labeled by title."""

    name: str
    label: str = ""
    runs: int = 0
    relayed_calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None  # of the calls whose price is known; None if there are none
    unpriced_calls: int = 0


class UsageSource(Protocol):
    """A source of usage figures."""

    async def usage(self, query: UsageQuery) -> Sequence[UsageSum]:
        """What runs and relayed calls used, days in order and everything else by cost, highest first.

        Sums survive the purge of their session, except for the session's own.
        """
        ...
