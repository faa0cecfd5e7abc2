"""What a call costs is known for known models, and is not guessed for others."""

from holdfast.model_events import TokensUsed
from holdfast.models.call_deps import Prices
from holdfast.targets import Target

USED = TokensUsed(input_tokens=1_000_000, output_tokens=1_000_000)


def target(base_url: str, model: str) -> Target:
    return Target(name="t", wire="chat", base_url=base_url, model=model)


async def test_a_known_model_has_a_price_and_caching_makes_it_cheaper() -> None:
    known = target("https://api.openai.com/v1", "gpt-4o")
    prices = Prices()
    assert prices.cost_usd(known, USED) is None
    await prices.load([known])
    cost = prices.cost_usd(known, USED)
    cached = prices.cost_usd(
        known, TokensUsed(input_tokens=1_000_000, cached_tokens=900_000, output_tokens=1_000_000)
    )
    assert cost is not None
    assert cached is not None
    assert 0 < cached < cost


async def test_what_is_local_or_unknown_has_no_price() -> None:
    local, unknown = target("http://127.0.0.1:1/v1", "gpt-4o"), target("https://models.example/v1", "own")
    prices = Prices()
    await prices.load([local])
    assert prices.cost_usd(local, USED) is None
    await prices.load([unknown])
    assert prices.cost_usd(unknown, USED) is None
    assert prices.cost_usd(local, USED) is None


async def test_counts_that_cannot_be_have_no_price() -> None:
    """P4: an answer is an answer, whatever its server counts."""
    known = target("https://api.openai.com/v1", "gpt-4o")
    prices = Prices()
    await prices.load([known])
    assert prices.cost_usd(known, TokensUsed(input_tokens=10, cached_tokens=20)) is None
    assert prices.cost_usd(known, TokensUsed(input_tokens=-1)) is None
