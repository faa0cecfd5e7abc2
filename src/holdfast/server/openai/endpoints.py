"""Binds the OpenAI-compatible endpoints. A request for a feature's model is answered by its resolver."""

import codecs
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from starlette.requests import Request

from holdfast.catalog import FEATURES
from holdfast.server.access.caller import check_scope
from holdfast.server.access.middleware import too_large
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.model_names import ModelNames, ModelResolver
from holdfast.server.openai.chat import OpenAIChatRoutes
from holdfast.server.openai.conversations import ConversationRoutes
from holdfast.server.openai.models import OpenAIModelRoutes
from holdfast.server.openai.repeats import Repeats
from holdfast.server.openai.responses import OpenAIResponsesRoutes
from holdfast.server.openai.stored_context import OpenAIContextRoutes
from holdfast.server.routing import Endpoint
from holdfast.server.sessions.sessions import SessionRoutes
from holdfast.server.transport.encodings import read_decoded

RESOLVERS: tuple[type[ModelResolver], ...] = tuple(
    one.part(one.models) for one in FEATURES.values() if one.models
)
AgentEndpoint: TypeAlias = Callable[[Request, bytes], Awaitable[Any]]


class SharedRoutes:
    """The routes that agents share with the models of resolvers."""

    def __init__(self, deps: RouteDeps, resolvers: Sequence[ModelResolver]) -> None:
        self._deps = deps
        self._resolvers = resolvers

    def of(self, agent: AgentEndpoint) -> Endpoint:
        """Return an endpoint that calls `agent` if no resolver answers."""
        return partial(self._answer, agent)

    async def _answer(self, agent: AgentEndpoint, request: Request) -> Any:
        limits = self._deps.limits
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


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    deps = parts.deps
    repeats = Repeats(deps.clock)
    resolvers = [parts.routes(one) for one in RESOLVERS]
    names, shared = ModelNames(deps.options, resolvers), SharedRoutes(deps, resolvers)
    openai = OpenAIChatRoutes(parts, repeats, names)
    responses = OpenAIResponsesRoutes(parts, repeats, names)
    models, conversations = (
        OpenAIModelRoutes(names),
        ConversationRoutes(deps, SessionRoutes(deps, parts.purges)),
    )
    context = OpenAIContextRoutes(parts, names)
    return {
        "conversations.create": conversations.create,
        "conversations.show": conversations.show,
        "conversations.change": conversations.change,
        "conversations.delete": conversations.delete,
        "conversations.items": conversations.items,
        "conversations.item": conversations.item,
        "openai.complete": shared.of(openai.complete),
        "openai.models": models.list,
        "openai.model": models.show,
        "responses.create": shared.of(responses.create),
        "responses.input_tokens": shared.of(context.input_tokens),
        "responses.compact": shared.of(context.compact),
        "responses.show": responses.show,
        "responses.delete": responses.delete,
        "responses.input_items": responses.input_items,
        "responses.cancel": responses.cancel,
    }
