"""GET /metrics: the figures of this process for Prometheus, with a new registry for each request."""

import asyncio
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
from starlette.requests import Request
from starlette.responses import Response

from holdfast import __version__
from holdfast.catalog import FEATURES
from holdfast.folds.metrics import Histogram, Metrics
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.routing import Endpoint


class MetricsRoutes:
    """The metrics route."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def show(self, request: Request) -> Response:
        """GET /metrics."""
        del request
        gauges = await measured(self._deps)
        text = await asyncio.to_thread(exposition, self._deps.metrics, gauges)
        return Response(text, media_type="text/plain; version=1.0.0")


async def measured(deps: RouteDeps) -> Mapping[str, tuple[str, float]]:
    """Return gauges measured in the event loop."""
    lag = deps.supervisor.lag
    return {
        "active_sessions": ("Sessions with something to run.", deps.supervisor.active),
        "waiting_sessions": ("Sessions waiting for a slot.", deps.supervisor.waiting),
        "open_streams": ("Open event streams.", len(deps.streams)),
        "open_asks": (
            "Pending approvals and questions.",
            await deps.store.open_ask_count(),
        ),
        "event_loop_lag_seconds": ("How late the event loop was at the last check.", lag.last_s),
        "event_loop_lag_worst_seconds": (
            "The longest delay of the event loop in the last minute.",
            lag.worst_s,
        ),
        "event_loop_tasks": ("Tasks in the event loop.", len(asyncio.all_tasks())),
    }


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    metrics = MetricsRoutes(parts.deps)
    return {
        "metrics.show": metrics.show,
    }


_PREFIX = "holdfast_"


def families(metrics: Metrics, gauges: Mapping[str, tuple[str, float]]) -> Iterator[Metric]:
    """Yield all metrics but those of the process."""
    about = {"version": __version__, "python": platform.python_version()}
    yield InfoMetricFamily(f"{_PREFIX}build", "The Holdfast version.", value=about)
    for name, (words, value) in gauges.items():
        yield GaugeMetricFamily(_PREFIX + name, words, value=value)
    yield from _runs(metrics)
    yield from _models(metrics)
    for feature in FEATURES.values():
        if feature.metrics:
            yield from feature.part(feature.metrics)(metrics)
    yield _histogram("commit_seconds", "Time until events are on disk.", metrics.commit_s)


def exposition(metrics: Metrics, gauges: Mapping[str, tuple[str, float]]) -> bytes:
    """Return the text. Reads files of the process, so run it in a thread."""

    class Collected:
        def collect(self) -> Iterator[Metric]:
            return families(metrics, gauges)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected())
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def _runs(metrics: Metrics) -> Iterator[Metric]:
    yield CounterMetricFamily(f"{_PREFIX}runs_started", "Runs that got a slot.", value=metrics.runs_started)
    yield CounterMetricFamily(
        f"{_PREFIX}runs_resumed", "Runs that continued after a restart.", value=metrics.runs_resumed
    )
    ended = CounterMetricFamily(f"{_PREFIX}runs_ended", "Ended runs, by outcome.", labels=["outcome"])
    for outcome, count in list(metrics.runs_ended.items()):
        ended.add_metric([outcome], count)
    yield ended
    yield GaugeMetricFamily(f"{_PREFIX}runs_active", "Active runs.", value=len(metrics.runs_active))
    yield GaugeMetricFamily(f"{_PREFIX}runs_queued", "Queued runs.", value=len(metrics.runs_queued))
    tools = CounterMetricFamily(f"{_PREFIX}tool_calls", "Tool calls, by ending.", labels=["ending"])
    for ending, count in list(metrics.tools.items()):
        tools.add_metric([ending], count)
    yield tools


def _models(metrics: Metrics) -> Iterator[Metric]:
    for name, words, label, counts in (
        ("model_attempts", "Connections to models, by close reason.", "close_reason", metrics.attempts),
        ("model_failures", "Failed connections to models, by kind of failure.", "kind", metrics.failures),
        ("tokens", "Tokens used by model calls.", "direction", metrics.tokens),
    ):
        family = CounterMetricFamily(_PREFIX + name, words, labels=["target", label])
        for labels, count in list(counts.items()):
            family.add_metric(labels, count)
        yield family
    cost = CounterMetricFamily(
        f"{_PREFIX}cost_usd", "Cost of model calls, where it's known.", labels=["target"]
    )
    for target, spent in list(metrics.cost_usd.items()):
        cost.add_metric([target], spent)
    yield cost
    first = HistogramMetricFamily(
        f"{_PREFIX}first_token_seconds",
        "Time from the start of an attempt to its first token.",
        labels=["target"],
    )
    for target, spread in list(metrics.first_token_s.items()):
        first.add_metric([target], _buckets(spread), spread.total)
    yield first


def _histogram(name: str, words: str, spread: Histogram) -> Metric:
    return HistogramMetricFamily(_PREFIX + name, words, buckets=_buckets(spread), sum_value=spread.total)


def _buckets(spread: Histogram) -> list[tuple[str, float]]:
    """Cumulative, as Prometheus wants them."""
    counted = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip([*map(str, spread.bounds), "+Inf"], list(spread.counts), strict=True):
        counted += count
        buckets.append((bound, counted))
    return buckets
