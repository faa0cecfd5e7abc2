"""One path of the API with all its methods; what the path does not take is 405, with what it does take."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.routing import Match, Route
from starlette.types import Scope

Endpoint: TypeAlias = Callable[[Request], Awaitable[Any]]
Table: TypeAlias = list[tuple[str, str, Endpoint]]  # method, path, what it does

STREAM = "/events"


class ApiRoute(Route):
    """A path of the API is never a path of the page, whatever the method."""

    def __init__(self, path: str, endpoints: Mapping[str, Endpoint]) -> None:
        async def endpoint(request: Request) -> Any:
            return await endpoints["GET" if request.method == "HEAD" else request.method](request)

        super().__init__(path, endpoint, methods=list(endpoints))
        if path.endswith(STREAM) and self.methods is not None:
            self.methods.discard("HEAD")  # it would hold a stream open and show nothing of it

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """See Route; it answers 405 itself."""
        match, child = super().matches(scope)
        return Match.FULL if match is Match.PARTIAL else match, child


def api_routes(table: Table) -> Iterable[ApiRoute]:
    """One route for each path, in the order of the table."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for method, path, endpoint in table:
        paths.setdefault(path, {})[method] = endpoint
    return (ApiRoute(path, endpoints) for path, endpoints in paths.items())
