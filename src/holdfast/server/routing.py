"""The routes of the API: each operation of the table bound to its function."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.requests import Request
from starlette.routing import Match, Route, Router, compile_path
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send
from typing_extensions import override

from holdfast.api.operation import EVENTS, Operation
from holdfast.interfaces.ids import is_automation
from holdfast.server.access.caller import check_may_call
from holdfast.server.problems import Problem, session_not_found

if TYPE_CHECKING:
    import re

    from starlette.convertors import Convertor

_WEBSOCKET = b"sec-websocket-key"  # who asks for one with any other answer would try again
Endpoint: TypeAlias = Callable[[Request], Awaitable[Any]]


class ApiRoute(Route):
    """One path of the API with all its methods; it is never a path of the page, whatever the method."""

    def __init__(self, path: str, methods: Mapping[str, tuple[Operation, Endpoint]]) -> None:
        async def endpoint(request: Request) -> Any:
            operation, call = methods["GET" if request.method == "HEAD" else request.method]
            check_may_call(operation, request.scope)
            if is_automation(session_id := request.path_params.get("session_id", "")):
                raise session_not_found(session_id)
            return await call(request)

        # Without Starlette's constructor, which compiles the pattern: most paths are never asked for.
        self.path = self.name = path
        self.endpoint, self.app = endpoint, _answering(endpoint)
        self.methods = set(methods)
        if "GET" in methods and not any(_streams(one) for one, _ in methods.values()):
            self.methods.add("HEAD")  # of a stream, it would hold the stream open
        self._head = path.partition("{")[0]

    @cached_property
    def _compiled(self) -> "tuple[re.Pattern[str], str, dict[str, Convertor[Any]]]":
        return compile_path(self.path)

    @property
    def path_regex(self) -> "re.Pattern[str]":  # pyright: ignore[reportIncompatibleVariableOverride]
        """The pattern of the path."""
        return self._compiled[0]

    @property
    def param_convertors(self) -> "dict[str, Convertor[Any]]":  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the converters of the path's parameters."""
        return self._compiled[2]

    @property
    def is_fixed(self) -> bool:
        """Whether the path has no parameters."""
        return self._head == self.path

    def fits(self, path: str) -> bool:
        """Whether the path is one of this route."""
        if self.is_fixed:
            return path == self.path
        return path.startswith(self._head) and self.path_regex.match(path) is not None

    @override
    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET" and any(name == _WEBSOCKET for name, _ in scope["headers"]):
            raise Problem(
                426,
                "WebSocket isn't supported here. Use HTTP instead",
                code="upgrade_not_supported",
                headers={"Upgrade": "HTTP/1.1"},
            )
        await super().handle(scope, receive, send)

    @override
    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not scope.get("root_path") and not scope["path"].startswith(self._head):
            return Match.NONE, {}
        match, child = super().matches(scope)
        # An unsupported method is a 405 of this route; the next route must not see it.
        return Match.FULL if match is Match.PARTIAL else match, child


class ApiRouter(Router):
    """Finds the route of a request: one look for a path without parameters, and then route by route."""

    def __init__(self, routes: Sequence[ApiRoute], *others: Route, lifespan: Lifespan[Any]) -> None:
        super().__init__([*routes, *others], redirect_slashes=False, lifespan=lifespan)
        self._fixed: dict[str, ApiRoute] = {}
        for path in (route.path for route in routes if route.is_fixed):
            # Whichever comes first in the table, even if it has parameters.
            self._fixed[path] = next(route for route in routes if route.fits(path))

    @override
    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._fixed.get(scope.get("path", ""))
        if route is None or not route.is_fixed or scope.get("root_path"):
            await super().app(scope, receive, send)
        else:
            await route.handle(scope, receive, send)


def _answering(endpoint: Endpoint) -> ASGIApp:
    """The endpoint as an application; its exceptions are left to the outermost layer."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        response = await endpoint(Request(scope, receive, send))
        await response(scope, receive, send)

    return app


def _streams(operation: Operation) -> bool:
    """Whether it returns a stream by default."""
    response = operation.responses.get(200)
    return isinstance(response, Mapping) and next(iter(response)) == EVENTS  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def api_routes(operations: Iterable[Operation], endpoints: Mapping[str, Endpoint]) -> list[ApiRoute]:
    """One route for each path, in the order of the table; raises ValueError if the two differ."""
    table = list(operations)
    named = {one.endpoint for one in table}
    if missing := sorted(named - endpoints.keys()):
        raise ValueError(f"no function is bound to these endpoints of the table: {', '.join(missing)}")
    if unknown := sorted(endpoints.keys() - named):
        raise ValueError(f"the table has no operation for these endpoints: {', '.join(unknown)}")
    paths: dict[str, dict[str, tuple[Operation, Endpoint]]] = {}
    for one in table:
        for path in one.paths:
            paths.setdefault(path, {})[one.method] = one, endpoints[one.endpoint]
    return [ApiRoute(path, methods) for path, methods in paths.items()]
