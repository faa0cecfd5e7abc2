"""Figures as text for Prometheus; a registry of its own, made anew for each look."""

import platform
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from holdfast import __version__
from holdfast.metrics import Figures, Spread

_PREFIX = "holdfast_"


def exposition(figures: Figures, gauges: Mapping[str, tuple[str, float]]) -> bytes:
    """The text; reads files of the process, so it wants a thread of its own."""

    class Collected:
        def collect(self) -> Iterator[Metric]:
            about = {"version": __version__, "python": platform.python_version()}
            yield InfoMetricFamily(f"{_PREFIX}build", "What runs here.", value=about)
            for name, (words, value) in gauges.items():
                yield GaugeMetricFamily(_PREFIX + name, words, value=value)
            yield from _runs(figures)
            yield from _models(figures)
            yield _histogram(
                "commit_seconds", "From handing events in to having them on disk.", figures.commit_s
            )

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected())
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def _runs(figures: Figures) -> Iterator[Metric]:
    yield CounterMetricFamily(
        f"{_PREFIX}runs_started", "Runs that got their slot.", value=figures.runs_started
    )
    yield CounterMetricFamily(
        f"{_PREFIX}runs_resumed", "Runs that went on after a restart.", value=figures.runs_resumed
    )
    ended = CounterMetricFamily(f"{_PREFIX}runs_ended", "Runs by how they ended.", labels=["outcome"])
    for outcome, count in list(figures.runs_ended.items()):
        ended.add_metric([outcome], count)
    yield ended
    yield GaugeMetricFamily(f"{_PREFIX}runs_active", "Runs under way.", value=len(figures.runs_active))
    yield GaugeMetricFamily(f"{_PREFIX}runs_queued", "Runs that wait.", value=len(figures.runs_queued))
    tools = CounterMetricFamily(f"{_PREFIX}tool_calls", "Tool calls by how they ended.", labels=["ending"])
    for ending, count in list(figures.tools.items()):
        tools.add_metric([ending], count)
    yield tools


def _models(figures: Figures) -> Iterator[Metric]:
    for name, words, label, counts in (
        ("model_attempts", "Connections to models by why they closed.", "close_reason", figures.attempts),
        ("model_failures", "Failed connections by what went wrong.", "kind", figures.failures),
        ("tokens", "Tokens that calls used.", "direction", figures.tokens),
    ):
        family = CounterMetricFamily(_PREFIX + name, words, labels=["target", label])
        for labels, count in list(counts.items()):
            family.add_metric(labels, count)
        yield family
    cost = CounterMetricFamily(f"{_PREFIX}cost_usd", "What calls cost, where it is known.", labels=["target"])
    for target, spent in list(figures.cost_usd.items()):
        cost.add_metric([target], spent)
    yield cost
    first = HistogramMetricFamily(
        f"{_PREFIX}first_token_seconds", "From the start of an attempt to its first word.", labels=["target"]
    )
    for target, spread in list(figures.first_token_s.items()):
        first.add_metric([target], _buckets(spread), spread.total)
    yield first


def _histogram(name: str, words: str, spread: Spread) -> Metric:
    return HistogramMetricFamily(_PREFIX + name, words, buckets=_buckets(spread), sum_value=spread.total)


def _buckets(spread: Spread) -> list[tuple[str, float]]:
    """Cumulative, as Prometheus wants them."""
    counted = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip([*map(str, spread.bounds), "+Inf"], list(spread.counts), strict=True):
        counted += count
        buckets.append((bound, counted))
    return buckets
