"""The targets over HTTP: how they are, and one tiny call to see whether one works."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.server import TargetList
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem
from holdfast.server.routing import Endpoint
from holdfast.server.transport.bodies import json_response


class TargetRoutes:
    """The routes under /api/targets."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps
        self._trying: set[str] = set()

    async def list(self, request: Request) -> Response:
        """GET /api/targets."""
        del request
        return json_response(TargetList(data=tuple(await self._deps.options.target_states())))

    async def try_one(self, request: Request) -> Response:
        """POST /api/targets/{name}/try."""
        name: str = request.path_params["name"]
        if name in self._trying:
            why = f"{name} is already being tested. Wait up to 25 seconds for that call to end"
            raise Problem(409, why, code="already_trying")
        self._trying.add(name)
        try:
            tried = await self._deps.options.try_target(name, self._deps.metrics.add)
        finally:
            self._trying.discard(name)
        if tried is None:
            raise Problem(404, "No target has this name", code="target_not_found", param="name")
        return json_response(tried)


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    targets = TargetRoutes(parts.deps)
    return {
        "targets.list": targets.list,
        "targets.try_one": targets.try_one,
    }
