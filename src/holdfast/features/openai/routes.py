"""The OpenAI-compatible routes. A request that names another feature's model is answered by its resolver."""

from holdfast.features.openai.chat import OpenAIChatRoutes
from holdfast.features.openai.models import OpenAIModelRoutes
from holdfast.features.openai.responses import OpenAIResponsesRoutes
from holdfast.features.openai.shared_routes import SharedRoutes
from holdfast.features.openai.stored_context import OpenAIContextRoutes
from holdfast.server.lazy_endpoints import RouteParts


class OpenAIRoutes:
    """Chat Completions and the list of models."""

    def __init__(self, parts: RouteParts) -> None:
        shared = parts.routes(SharedRoutes)
        models = OpenAIModelRoutes(shared.names)
        self.complete = shared.of(OpenAIChatRoutes(parts).complete)
        self.models, self.model = models.list, models.show


class ResponseRoutes:
    """The routes under /v1/responses."""

    def __init__(self, parts: RouteParts) -> None:
        shared = parts.routes(SharedRoutes)
        responses, context = OpenAIResponsesRoutes(parts), OpenAIContextRoutes(parts)
        self.create = shared.of(responses.create)
        self.input_tokens, self.compact = shared.of(context.input_tokens), shared.of(context.compact)
        self.show, self.delete = responses.show, responses.delete
        self.input_items, self.cancel = responses.input_items, responses.cancel
