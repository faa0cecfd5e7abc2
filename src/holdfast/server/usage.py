"""GET /api/usage: what runs and relayed calls used."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from holdfast.server.access.auth import OPEN
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.routing import Endpoint
from holdfast.server.transport.bodies import json_response
from holdfast.server.usage_summary import days_of, grouping, usage_summary


class UsageRoutes:
    """Sums by day, target, session or key; the store keeps them, so no log is read."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def show(self, request: Request) -> Response:
        """GET /api/usage."""
        deps, query = self._deps, request.query_params
        by = grouping(query.get("by", "day"))
        days = days_of(query.get("from", ""), query.get("to", ""), now_ms=deps.clock.now_ms())
        budgets = await deps.budgets.shown(self._keys())
        return json_response(await usage_summary(deps.store, by, days, budgets=budgets))

    def _keys(self) -> list[str]:
        keys = self._deps.keys
        return [OPEN] if keys.is_open else [*keys.configured, *(key.name for key in keys.added.list())]


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    deps = parts.deps
    return {
        "usage.show": UsageRoutes(deps).show,
    }
