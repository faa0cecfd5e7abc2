"""The endpoints of the API, each bound when its feature is first called, so that the start imports none."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request

from holdfast.api.operations import OPERATIONS
from holdfast.catalog import FEATURES as SHIPPED_FEATURES
from holdfast.interfaces.feature import Feature
from holdfast.server.deps import RouteDeps
from holdfast.server.routing import Endpoint
from holdfast.server.upkeep.disconnects import Disconnects
from holdfast.server.upkeep.purging import Purges

if TYPE_CHECKING:
    from holdfast.server.runs.runs import RunRoutes

_Routes = TypeVar("_Routes")

# The module whose function `endpoints` binds the endpoints of a name's first part.
FEATURES: Mapping[str, str] = MappingProxyType(
    {
        "blobs": "message_content",
        "browsers": "access.endpoints",
        "context": "sessions.context",
        "docs": "docs_page",
        "grants": "grants",
        "health": "health",
        "inputs": "runs.endpoints",
        "keys": "access.endpoints",
        "log": "sessions.endpoints",
        "metrics": "metrics",
        "nodes": "nodes",
        "processes": "sessions.endpoints",
        "quarantine": "quarantine",
        "queue": "sessions.endpoints",
        "runs": "runs.endpoints",
        "sessions": "sessions.endpoints",
        "targets": "targets",
    }
)
# The same for features, which name a class instead.
ROUTES: Mapping[str, Feature] = MappingProxyType(
    {first: feature for feature in SHIPPED_FEATURES.values() for first in feature.routes}
)


@dataclass(frozen=True)
class RouteParts:
    """The parts of endpoints. `closing` is closed with the server."""

    deps: RouteDeps
    purges: Purges
    disconnects: Disconnects
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)
    _routes: dict[Any, Any] = field(default_factory=dict[Any, Any])  # by class

    def routes(self, kind: "Callable[[RouteParts], _Routes]") -> "_Routes":
        """Return the server's one object of a feature's class of routes, made on first use."""
        if kind not in self._routes:
            self._routes[kind] = kind(self)
        return self._routes[kind]

    @cached_property
    def runs(self) -> "RunRoutes":
        """The endpoints of runs, which other features use, too."""
        from holdfast.server.runs.runs import RunRoutes

        return RunRoutes(self.deps, self.disconnects)


class LazyEndpoints:
    """All endpoints by name."""

    def __init__(self, parts: RouteParts) -> None:
        self._parts = parts
        self._bound: dict[str, Endpoint] = {}

    def all(self) -> Mapping[str, Endpoint]:
        """The endpoints; the first call of one imports its feature."""
        return {one.endpoint: partial(self._call, one.endpoint) for one in OPERATIONS}

    def _call(self, name: str, request: Request) -> Awaitable[Any]:
        endpoint = self._bound.get(name)
        return self._first_call(name, request) if endpoint is None else endpoint(request)

    async def _first_call(self, name: str, request: Request) -> Any:
        # In a thread even if it's known: another request may be importing it right now.
        await asyncio.to_thread(import_module, module_of(name))
        return await self.bind(name)(request)

    def bind(self, name: str) -> Endpoint:
        """Return the endpoint with its feature bound. Imports the feature on first use, so it may block."""
        if name not in self._bound:
            self._bound |= self._parts.deps.workspaces.guarded(
                OPERATIONS, self._group(name.partition(".")[0])
            )
        return self._bound[name]

    def _group(self, first: str) -> Mapping[str, Endpoint]:
        """All endpoints whose names begin so."""
        if first in FEATURES:
            return import_module(module_of(first)).endpoints(self._parts)
        feature = ROUTES[first]
        routes = self._parts.routes(feature.part(feature.routes[first]))
        names = [one.endpoint for one in OPERATIONS if one.endpoint.startswith(f"{first}.")]
        return {name: getattr(routes, name.removeprefix(f"{first}.")) for name in names}


def module_of(endpoint: str) -> str:
    """The module that binds the endpoint."""
    first = endpoint.partition(".")[0]
    if first in FEATURES:
        return f"holdfast.server.{FEATURES[first]}"
    return ROUTES[first].module(ROUTES[first].routes[first])
