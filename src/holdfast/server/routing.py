"""The routes of the API: each operation of the table bound to its function."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Match, Route, Router, compile_path
from starlette.types import Lifespan, Receive, Scope, Send
from typing_extensions import override

from holdfast.api.operation import EVENTS, Operation
from holdfast.interfaces.ids import is_automation
from holdfast.server.access.caller import check_may_call
from holdfast.server.problems import Problem, session_not_found

if TYPE_CHECKING:
    import re
    from types import CoroutineType

    from starlette.convertors import Convertor

_WEBSOCKET = b"sec-websocket-key"  # who asks for one with any other answer would try again
Endpoint: TypeAlias = Callable[[Request], Awaitable[Any]]


class ApiRoute(Route):
    """One path of the API with all its methods; it is never a path of the page, whatever the method."""

    def __init__(self, path: str, methods: Mapping[str, tuple[Operation, Endpoint]]) -> None:
        # Without Starlette's constructor, which compiles the pattern: most paths are never asked for.
        self.path = self.name = path
        self.endpoint = self.app = self.handle
        self.methods = set(methods)
        self._calls = dict(methods)
        if "GET" in methods and not any(_streams(one) for one, _ in methods.values()):
            self.methods.add("HEAD")  # of a stream, it would hold the stream open
            self._calls["HEAD"] = methods["GET"]
        self.head = path.partition("{")[0]

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
        return self.head == self.path

    def fits(self, path: str) -> bool:
        """Whether the path is one of this route."""
        if self.is_fixed:
            return path == self.path
        return path.startswith(self.head) and self.path_regex.match(path) is not None

    def parameters(self, path: str) -> dict[str, Any] | None:
        """The values of the path's parameters; None if it isn't a path of this route."""
        found = self.path_regex.match(path)
        if found is None:
            return None
        return {name: self.param_convertors[name].convert(value) for name, value in found.groupdict().items()}

    @override
    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; exceptions are left to the outermost layer."""
        method: str = scope["method"]
        if method == "GET":
            for name, _ in scope["headers"]:
                if name == _WEBSOCKET:
                    raise Problem(
                        426,
                        "WebSocket isn't supported here. Use HTTP instead",
                        code="upgrade_not_supported",
                        headers={"Upgrade": "HTTP/1.1"},
                    )
        if method not in self._calls:
            raise HTTPException(405, headers={"Allow": ", ".join(self.methods)})
        operation, call = self._calls[method]
        check_may_call(operation, scope)
        if is_automation(session_id := scope["path_params"].get("session_id", "")):
            raise session_not_found(session_id)
        response = await call(Request(scope, receive, send))
        await response(scope, receive, send)

    @override
    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not scope.get("root_path") and not scope["path"].startswith(self.head):
            return Match.NONE, {}
        match, child = super().matches(scope)
        # An unsupported method is a 405 of this route; the next route must not see it.
        return Match.FULL if match is Match.PARTIAL else match, child


class ApiRouter(Router):
    """Finds the route of a request: one look for a path without parameters, and then route by route."""

    def __init__(self, routes: Sequence[ApiRoute], *others: Route, lifespan: Lifespan[Any]) -> None:
        super().__init__([*routes, *others], redirect_slashes=False, lifespan=lifespan)
        self._fixed: dict[str, ApiRoute] = {}
        self._others = [route for route in routes if not route.is_fixed]
        for path in (route.path for route in routes if route.is_fixed):
            # Whichever comes first in the table, even if it has parameters.
            first = next(route for route in routes if route.fits(path))
            if first.is_fixed:
                self._fixed[path] = first

    @override
    def __call__(self, scope: Scope, receive: Receive, send: Send) -> "CoroutineType[Any, Any, None]":
        # Not a coroutine: an event stream resumes each of them for every frame.
        route = self._route(scope) if scope["type"] == "http" and not scope.get("root_path") else None
        return (route.handle if route else super().__call__)(scope, receive, send)

    def _route(self, scope: Scope) -> ApiRoute | None:
        """The route of the API that the request is for; its path's parameters are added to the scope."""
        path: str = scope["path"]
        if (fixed := self._fixed.get(path)) is not None:
            scope["path_params"] = {}
            return fixed
        for route in self._others:
            if path.startswith(route.head) and (found := route.parameters(path)) is not None:
                scope["path_params"] = found
                return route
        return None


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
