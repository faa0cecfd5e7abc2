"""The models that OpenAI clients can name: the agent itself, and each target by its name or model."""

from collections.abc import Mapping
from types import MappingProxyType

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.openai import ModelList, ModelShown, OpenAIRequest
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem
from holdfast.server.transport.bodies import json_answer
from holdfast.targets import SAMPLING

_NEVER_PASSED: Mapping[str, object] = MappingProxyType({"n": 1, "logprobs": False, "top_logprobs": 0})
# Many clients always send these, and they change nothing.
_USUAL: Mapping[str, object] = MappingProxyType(
    {"top_p": 1.0, "stop": [], "presence_penalty": 0.0, "frequency_penalty": 0.0}
)
AGENT_NAMES = ("holdfast", "hermes-agent")  # they run the agent on its default target


class OpenAIModelRoutes:
    """What the routes under /v1/models do."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def list(self, request: Request) -> Response:
        """GET /v1/models."""
        del request
        return json_answer(ModelList(data=tuple(_shown(name) for name in _listed(self._deps))))

    async def show(self, request: Request) -> Response:
        """GET /v1/models/{model}."""
        name: str = request.path_params["model"]
        if name not in _listed(self._deps):
            raise _not_found(name, self._deps)
        return json_answer(_shown(name))


def insist_on_known_model(name: str | None, headers: Mapping[str, str], deps: RouteDeps) -> None:
    """Raise a Problem if a client names a model that this server doesn't have.

    Clients of hermes-agent, which never looked at the name, are known by their headers and may say anything.
    """
    if not name or any(header.lower().startswith("x-hermes-") for header in headers):
        return
    models = [target.model for target in deps.options.targets()]
    if name not in {*AGENT_NAMES, *_listed(deps), *models}:
        raise _not_found(name, deps)


def sampling_of(wanted: OpenAIRequest, deps: RouteDeps) -> dict[str, object]:
    """The sampling options of the request; raises a Problem for one that would be ignored."""
    for name, usual in _NEVER_PASSED.items():
        if getattr(wanted, name) not in (None, usual):
            raise _unsupported(name, "is not available here")
    given = {name: getattr(wanted, name) for name in SAMPLING["chat"]}
    options = {
        name: value for name, value in given.items() if value is not None and value != _USUAL.get(name)
    }
    targets = deps.options.targets()
    target = next(
        (one for one in targets if wanted.model in {one.name, one.model}), next(iter(targets), None)
    )
    for name in options:
        if target is not None and name not in SAMPLING[target.wire]:
            raise _unsupported(name, f"is not known to the target {target.name}")
    return options


def _unsupported(name: str, why: str) -> Problem:
    text = f"'{name}' {why}. Send the request without it"
    return Problem(400, text, code="unsupported_parameter", param=name)


def _listed(deps: RouteDeps) -> list[str]:
    names = [deps.options.model, *(target.name for target in deps.options.targets())]
    return list(dict.fromkeys(names))


def _shown(name: str) -> ModelShown:
    return ModelShown(id=name, object="model", created=0, owned_by="holdfast")


def _not_found(name: str, deps: RouteDeps) -> Problem:
    known = ", ".join(_listed(deps)[:20])
    return Problem(
        404, f"Model not found: {name[:100]}. This server has: {known}", code="model_not_found", param="model"
    )
