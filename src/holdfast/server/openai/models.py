"""The models that clients can name: agents, and the models that are relayed."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.openai import AnthropicModel, AnthropicModelList, ModelList, ModelShown, OpenAIRequest
from holdfast.server.deps import RouteDeps
from holdfast.server.openai.shapes import is_hermes
from holdfast.server.options import ServerOptions
from holdfast.server.problems import Problem
from holdfast.server.relay.names import AGENT_NAMES, AGENT_ON, RelayNames, agent_model
from holdfast.server.transport.bodies import json_response
from holdfast.targets import APPLIED_HERE, SAMPLING, Target

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
LISTED_IN_ERRORS_MAX = 20
AGENT, RELAYED = "holdfast", "holdfast-relay"  # who a listed model belongs to


class ModelNames(Struct, frozen=True):
    """Which names run an agent, and which are relayed."""

    options: ServerOptions

    @property
    def _relay(self) -> RelayNames:
        relay = self.options.relay
        return RelayNames(relay.targets if relay.calls is not None else (), relay.models)

    def relayed(self, name: str) -> tuple[Target, ...]:
        """The targets behind a relayed name; empty if it runs an agent or isn't known."""
        return self._relay.targets_of(name)

    def relayed_for(self, name: str | None, request: Request) -> tuple[Target, ...]:
        """The same for a request.

        Clients of hermes-agent always get the agent, because hermes-agent ignores the name.
        """
        return () if not name or is_hermes(request) else self.relayed(name)

    def default_of(self, wire: str) -> tuple[Target, ...]:
        """The target for a surface that relays whatever the name is."""
        return self._relay.default_of(wire)

    def agents(self) -> list[str]:
        """The names that run an agent, as they are listed."""
        own = () if self.relayed(self.options.model) else (self.options.model,)
        on = [AGENT_ON + target.name for target in self.options.targets()]
        return list(dict.fromkeys([*own, AGENT_NAMES[0], *on]))

    def is_agent(self, name: str) -> bool:
        """Whether the name runs an agent; some do that aren't listed."""
        return name in AGENT_NAMES or name in self.agents()

    def owner_of(self, name: str) -> str:
        """Return the model's owner; empty if the model is unknown."""
        return AGENT if self.is_agent(name) else RELAYED if self.relayed(name) else ""

    def listed(self) -> dict[str, str]:
        """Every name that can be listed, and who it belongs to."""
        relayed = [name for name in self._relay.listed() if name not in self.agents()]
        return dict.fromkeys(self.agents(), AGENT) | dict.fromkeys(relayed, RELAYED)

    def insist_on_agent(self, name: str | None, request: Request) -> None:
        """Raise a Problem if a client names an agent that this server doesn't have."""
        if name and not is_hermes(request) and not self.is_agent(name):
            raise self.not_found(name)

    def not_found(self, name: str) -> Problem:
        """No such model."""
        known = ", ".join(list(self.listed())[:LISTED_IN_ERRORS_MAX])
        return Problem(
            404,
            f"Model not found: {name[:100]}. This server has: {known}",
            code="model_not_found",
            param="model",
        )


class OpenAIModelRoutes:
    """The routes under /v1/models."""

    def __init__(self, deps: RouteDeps) -> None:
        self._names = ModelNames(deps.options)

    async def list(self, request: Request) -> Response:
        """GET /v1/models; for Anthropic's clients in its shape, without agents, which they can't run."""
        listed = self._names.listed()
        if "anthropic-version" in request.headers:
            models = tuple(_shown_to_anthropic(name) for name, owner in listed.items() if owner == RELAYED)
            ids = [model.id for model in models] or [None]
            return json_response(
                AnthropicModelList(data=models, has_more=False, first_id=ids[0], last_id=ids[-1])
            )
        return json_response(ModelList(data=tuple(_shown(name, owner) for name, owner in listed.items())))

    async def show(self, request: Request) -> Response:
        """GET /v1/models/{model}."""
        name: str = request.path_params["model"]
        owner = self._names.owner_of(name)
        by_anthropic = "anthropic-version" in request.headers
        if not owner or (by_anthropic and owner != RELAYED):
            raise self._names.not_found(name)
        if by_anthropic:
            return json_response(_shown_to_anthropic(name))
        return json_response(_shown(name, owner))


def sampling_of(wanted: OpenAIRequest, deps: RouteDeps) -> dict[str, object]:
    """The sampling options of the request; raises a Problem for one that would be ignored."""
    for name, usual in _NEVER_PASSED.items():
        if getattr(wanted, name) not in (None, usual):
            raise unsupported(name, "isn't supported")
    given = {name: getattr(wanted, name) for name in SAMPLING["chat"]}
    options = {
        name: value for name, value in given.items() if value is not None and value != _USUAL.get(name)
    }
    targets = deps.options.targets()
    named = agent_model(wanted.model or "")
    target = next((one for one in targets if named in {one.name, one.model}), next(iter(targets), None))
    for name in options:
        if target is not None and name not in SAMPLING[target.wire] and name not in APPLIED_HERE:
            raise unsupported(name, f"isn't supported by the target {target.name}")
    return options


def unsupported(name: str, why: str) -> Problem:
    """A field that would be ignored."""
    text = f"'{name}' {why}. Send the request without it"
    return Problem(400, text, code="unsupported_parameter", param=name)


def _shown(name: str, owner: str) -> ModelShown:
    return ModelShown(id=name, object="model", created=0, owned_by=owner)


def _shown_to_anthropic(name: str) -> AnthropicModel:
    return AnthropicModel(type="model", id=name, display_name=name, created_at="1970-01-01T00:00:00Z")
