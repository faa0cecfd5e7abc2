"""Binds the endpoints that speak the protocols of model providers: an agent's, and those of the relay."""

from collections.abc import Mapping

from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.openai.chat import OpenAIChatRoutes
from holdfast.server.openai.conversations import ConversationRoutes
from holdfast.server.openai.models import OpenAIModelRoutes
from holdfast.server.openai.repeats import Repeats
from holdfast.server.openai.responses import OpenAIResponsesRoutes
from holdfast.server.openai.stored_context import OpenAIContextRoutes
from holdfast.server.relay.calls import DetachedCalls
from holdfast.server.relay.records import CallRecords
from holdfast.server.relay.routes import AgentEndpoints, KeptCalls, RelayRoutes
from holdfast.server.routing import Endpoint
from holdfast.server.sessions.sessions import SessionRoutes


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    deps, runs, disconnects = parts.deps, parts.runs, parts.disconnects
    repeats = Repeats(deps.clock)
    openai = OpenAIChatRoutes(deps, runs, disconnects, repeats)
    responses = OpenAIResponsesRoutes(deps, runs, disconnects, repeats)
    models, conversations = (
        OpenAIModelRoutes(deps),
        ConversationRoutes(deps, SessionRoutes(deps, parts.purges)),
    )
    context = OpenAIContextRoutes(deps, runs, disconnects)
    agents = AgentEndpoints(openai.complete, responses.create, context.input_tokens, context.compact)
    detached = DetachedCalls(deps.clock, join_s=deps.options.relay.join_s)
    kept = KeptCalls(CallRecords(deps.store), detached)
    parts.closing.push_async_callback(kept.close)
    relay = RelayRoutes(deps, kept, agents)
    return {
        "conversations.create": conversations.create,
        "conversations.show": conversations.show,
        "conversations.change": conversations.change,
        "conversations.delete": conversations.delete,
        "conversations.items": conversations.items,
        "conversations.item": conversations.item,
        "openai.complete": relay.chat,
        "relay.messages": relay.messages,
        "relay.count_tokens": relay.count_tokens,
        "relay.plain": relay.plain,
        "openai.models": models.list,
        "openai.model": models.show,
        "responses.create": relay.responses,
        "responses.input_tokens": relay.input_tokens,
        "responses.compact": relay.compact,
        "responses.show": responses.show,
        "responses.delete": responses.delete,
        "responses.input_items": responses.input_items,
        "responses.cancel": responses.cancel,
    }
