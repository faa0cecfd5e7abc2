"""One path of the API with all its methods, and who may call each.

What the path does not take is 405, with what it does take.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.routing import Match, Route
from starlette.types import Scope

from holdfast.api.operation import Operation
from holdfast.api.operations import operation_of
from holdfast.api.scopes import BY_TICKET, insist_on_scope
from holdfast.server.problems import Problem

Endpoint: TypeAlias = Callable[[Request], Awaitable[Any]]
Table: TypeAlias = list[tuple[str, str, Endpoint]]  # method, path, what it does

STREAM = "/events"
_CONVERTER = re.compile(r":\w+}")


class ApiRoute(Route):
    """A path of the API is never a path of the page, whatever the method."""

    def __init__(self, path: str, endpoints: Mapping[str, Endpoint]) -> None:
        plain = _CONVERTER.sub("}", path)
        operations = {method: operation_of(method, plain) for method in endpoints}

        async def endpoint(request: Request) -> Any:
            method = "GET" if request.method == "HEAD" else request.method
            _insist(operations[method], request.scope)
            return await endpoints[method](request)

        super().__init__(path, endpoint, methods=list(endpoints))
        if path.endswith(STREAM) and self.methods is not None:
            self.methods.discard("HEAD")  # it would hold a stream open and show nothing of it

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """See Route; it answers 405 itself."""
        match, child = super().matches(scope)
        return Match.FULL if match is Match.PARTIAL else match, child


def _insist(operation: Operation, asked: Scope) -> None:
    """Raise a Problem unless whoever asks may call this; nothing was read or looked up before."""
    if asked.get(BY_TICKET) and not operation.by_ticket:
        raise Problem(403, "Tickets are for images and downloads alone", code="no_ticket_taken")
    insist_on_scope(asked, operation.scopes)


def api_routes(table: Table) -> Iterable[ApiRoute]:
    """One route for each path, in the order of the table."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for method, path, endpoint in table:
        paths.setdefault(path, {})[method] = endpoint
    return (ApiRoute(path, endpoints) for path, endpoints in paths.items())
