"""The routes that agents share with the models of other features, and what all OpenAI routes share.

Automatic retries of OpenAI's packages: a retry reads the run that the first request started. The packages
retry after a timeout or a lost connection, with the same bytes and a retry count header. Without this, each
retry would repeat the work.
"""

import codecs
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

from msgspec import Struct
from starlette.requests import Request

from holdfast.catalog import FEATURES
from holdfast.features.openai.shapes import OpenAIFeed
from holdfast.folds.rows import RunRow
from holdfast.interfaces.clock import Clock
from holdfast.server.access.caller import check_scope
from holdfast.server.access.middleware import too_large
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.model_names import ModelNames, ModelResolver
from holdfast.server.problems import Problem
from holdfast.server.routing import Endpoint
from holdfast.server.runs.requests import agent_names
from holdfast.server.transport.bodies import read_decoded
from holdfast.server.transport.once import Abandoned, is_repeat, request_name

KEPT_S = 60.0


class AbandonedResponse(Struct, frozen=True):
    """A response whose reader left before its end: the run, and the event after which the response begins."""

    row: RunRow
    after: int


class Repeats:
    """Remembers the requests of readers who left; two open connections never share a response."""

    def __init__(self, clock: Clock) -> None:
        self._abandoned = Abandoned[AbandonedResponse](clock, kept_s=KEPT_S)

    def take_abandoned(self, request: Request, body: bytes) -> AbandonedResponse | None:
        """Return and remove the run of an earlier request with the same bytes and key, if this is a retry."""
        return self._abandoned.take(request_name(request, body)) if is_repeat(request) else None

    @contextmanager
    def rejoinable(self, request: Request, body: bytes, *, row: RunRow, after: int) -> Generator[None]:
        """Remember the response if the wait for it ends with a Problem, as when its reader left."""
        try:
            yield
        except Problem:
            self._abandon(request, body, row=row, after=after)
            raise

    def when_left(
        self, request: Request, body: bytes, *, row: RunRow, feed: OpenAIFeed, then: Callable[[], None] | None
    ) -> Callable[[], None]:
        """Return a callback for a disconnect, which remembers an unfinished response."""

        def left() -> None:
            if not feed.is_over:
                self._abandon(request, body, row=row, after=feed.begins_after)
            if then is not None:
                then()

        return left

    def _abandon(self, request: Request, body: bytes, *, row: RunRow, after: int) -> None:
        self._abandoned.put(request_name(request, body), AbandonedResponse(row, after))


RESOLVERS: tuple[type[ModelResolver], ...] = tuple(
    one.part(one.models) for one in FEATURES.values() if one.models
)
AgentEndpoint: TypeAlias = Callable[[Request, bytes], Awaitable[Any]]


class SharedRoutes:
    """Gives each request to the resolvers first. If none of them answers, an agent does."""

    def __init__(self, parts: RouteParts) -> None:
        self.repeats = Repeats(parts.deps.clock)
        self._limits = parts.deps.limits
        self._resolvers = [parts.routes(one) for one in RESOLVERS]
        self.names = ModelNames(parts.deps.options, self._resolvers, partial(agent_names, parts.deps))

    def of(self, agent: AgentEndpoint) -> Endpoint:
        """Return an endpoint that calls `agent` if no resolver answers."""
        return partial(self._answer, agent)

    async def _answer(self, agent: AgentEndpoint, request: Request) -> Any:
        limits = self._limits
        most = max(limits.body_bytes_max, limits.relayed_bytes_max if self._resolvers else 0)
        body = await read_decoded(request, limits, bytes_max=most)
        body = body.removeprefix(codecs.BOM_UTF8)
        for resolver in self._resolvers:
            if (answer := await resolver.answer(request, body)) is not None:
                return answer
        check_scope(request.scope, "chat")
        if len(body) > limits.body_bytes_max:
            raise too_large(limits.body_bytes_max)
        return await agent(request, body)
