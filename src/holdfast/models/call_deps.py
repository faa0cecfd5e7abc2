"""Dependencies shared by all model calls, and the published prices of tokens."""

import asyncio
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from holdfast.decisions.deadlines import is_local
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Blobs
from holdfast.interfaces.model import Authorize
from holdfast.model_events import TokensUsed
from holdfast.targets import Target

if TYPE_CHECKING:
    from holdfast.models.http import ModelHttp
    from holdfast.models.target_states import TargetStates

HEDGE_SHARE = 0.5


class Prices:
    """Looks prices up in a table that is loaded once, in a thread; until then no price is known."""

    def __init__(self) -> None:
        self._table: Any = None

    async def load(self, targets: Iterable[Target]) -> None:
        """Read the table, if any of the targets can have a price."""
        if not all(_is_free(target) for target in targets):
            self._table = await asyncio.to_thread(_read_table)

    def cost_usd(self, target: Target, used: TokensUsed) -> float | None:
        """The price of one call; None for local servers, sign-ins and models that are not in the table."""
        if self._table is None or _is_free(target):
            return None
        try:
            usage = self._table.Usage(
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens,
                cache_read_tokens=used.cached_tokens,
                cache_write_tokens=used.cache_write_tokens,
            )
            price = self._table.calc_price(usage, model_ref=target.model, provider_api_url=target.base_url)
        except (LookupError, ValueError):  # an unknown model, or impossible counts
            return None
        return float(price.total_price)


def _is_free(target: Target) -> bool:
    """Whether no price per token is paid: locally, and with a subscription."""
    return bool(target.auth) or is_local(urlsplit(target.base_url).hostname or "")


def _read_table() -> Any:
    """Import the table and query it once, which takes half a second: too long for the event loop."""
    table = import_module("genai_prices")
    table.calc_price(table.Usage(input_tokens=1), model_ref="gpt-4o", provider_id="openai")
    return table


class CallDeps(Struct, frozen=True):
    """Dependencies shared by all calls."""

    http: "Callable[[], ModelHttp]"  # opens the connections on its first call
    shared: "TargetStates"
    blobs: Blobs
    clock: Clock
    random: Callable[[], float]
    unattended: bool = False
    prices: Prices = field(default_factory=Prices)
    authorize: Authorize | None = None
    hedge_share: float = HEDGE_SHARE  # of the first-event patience, after which another target is asked too
