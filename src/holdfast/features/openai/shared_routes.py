"""The routes that agents share with the models of other features, and what all OpenAI routes share."""

import codecs
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

from starlette.requests import Request

from holdfast.catalog import FEATURES
from holdfast.features.openai.repeats import Repeats
from holdfast.server.access.caller import check_scope
from holdfast.server.access.middleware import too_large
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.model_names import ModelNames, ModelResolver
from holdfast.server.routing import Endpoint
from holdfast.server.runs.requests import agent_names
from holdfast.server.transport.encodings import read_decoded

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
