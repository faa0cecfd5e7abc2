"""The routes under /v1/models, and the sampling options that a request passes to its model."""

from collections.abc import Mapping
from types import MappingProxyType

from starlette.requests import Request
from starlette.responses import Response

from holdfast.features.openai.bodies import (
    AnthropicModel,
    AnthropicModelList,
    ModelList,
    ModelShown,
    OpenAIRequest,
)
from holdfast.server.model_names import AGENT_OWNER, ModelNames
from holdfast.server.problems import Problem
from holdfast.server.transport.bodies import json_response
from holdfast.targets import SAMPLING

_NEVER_PASSED: Mapping[str, object] = MappingProxyType({"n": 1, "logprobs": False, "top_logprobs": 0})
# Many clients always send these, and they change nothing.
_USUAL: Mapping[str, object] = MappingProxyType(
    {
        "top_p": 1.0,
        "stop": [],
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "logit_bias": {},
        "parallel_tool_calls": True,
        "verbosity": "medium",
    }
)


class OpenAIModelRoutes:
    """The routes under /v1/models."""

    def __init__(self, names: ModelNames) -> None:
        self._names = names

    async def list(self, request: Request) -> Response:
        """GET /v1/models; for Anthropic's clients in its shape, without agents, which they can't run."""
        listed = self._names.listed(await self._names.named_agents())
        if "anthropic-version" in request.headers:
            models = tuple(
                _shown_to_anthropic(name) for name, owner in listed.items() if owner != AGENT_OWNER
            )
            ids = [model.id for model in models] or [None]
            return json_response(
                AnthropicModelList(data=models, has_more=False, first_id=ids[0], last_id=ids[-1])
            )
        return json_response(ModelList(data=tuple(_shown(name, owner) for name, owner in listed.items())))

    async def show(self, request: Request) -> Response:
        """GET /v1/models/{model}."""
        name: str = request.path_params["model"]
        owner = await self._names.owner_of(name)
        by_anthropic = "anthropic-version" in request.headers
        if not owner or (by_anthropic and owner == AGENT_OWNER):
            raise self._names.not_found(name)
        if by_anthropic:
            return json_response(_shown_to_anthropic(name))
        return json_response(_shown(name, owner))


def sampling_of(wanted: OpenAIRequest) -> dict[str, object]:
    """The sampling options of the request; raises a Problem for one that no model gets."""
    for name, usual in _NEVER_PASSED.items():
        if getattr(wanted, name) not in (None, usual):
            raise unsupported(name, "isn't supported")
    given = {name: getattr(wanted, name) for name in SAMPLING["chat"]}
    return {name: value for name, value in given.items() if value is not None and value != _USUAL.get(name)}


def unsupported(name: str, why: str) -> Problem:
    """A field that would be ignored."""
    text = f"'{name}' {why}. Send the request without it"
    return Problem(400, text, code="unsupported_parameter", param=name)


def _shown(name: str, owner: str) -> ModelShown:
    return ModelShown(id=name, object="model", created=0, owned_by=owner)


def _shown_to_anthropic(name: str) -> AnthropicModel:
    return AnthropicModel(type="model", id=name, display_name=name, created_at="1970-01-01T00:00:00Z")
