"""GET /metrics: the figures of this process as Prometheus reads them."""

import asyncio
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from holdfast.folds.metrics import Metrics
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.routing import Endpoint


class MetricsRoutes:
    """The metrics route. The exporter's library is loaded on first use."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def show(self, request: Request) -> Response:
        """GET /metrics."""
        del request
        gauges = await self._now()
        text = await asyncio.to_thread(_exposition, self._deps.metrics, gauges)
        return Response(text, media_type="text/plain; version=1.0.0")

    async def _now(self) -> Mapping[str, tuple[str, float]]:
        """Return gauges measured in the event loop."""
        deps = self._deps
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


def _exposition(metrics: Metrics, gauges: Mapping[str, tuple[str, float]]) -> bytes:
    """Load the exporter and read files of the process. Run it in a thread."""
    from holdfast.server.exposition import exposition

    return exposition(metrics, gauges)


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    metrics = MetricsRoutes(parts.deps)
    return {
        "metrics.show": metrics.show,
    }
