"""The names that `model` accepts: agents, and models that a feature answers for."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct
from starlette.requests import Request

from holdfast.server.options import ServerOptions
from holdfast.server.problems import Problem

AGENT_NAMES = ("holdfast", "hermes-agent")  # they run the agent on its default target
AGENT_ON = "holdfast/"  # before the name of a target: the agent on that target
AGENT_OWNER = "holdfast"  # the owner of agents in GET /v1/models
LISTED_IN_ERRORS_MAX = 20


class ModelResolver:
    """A feature's models besides the agents; here, none.

    It answers OpenAI-compatible requests that name one of them.
    """

    owner = ""  # the owner of its models in GET /v1/models

    def listed(self) -> Sequence[str]:
        """Return the names to list; other names may work, too."""
        return ()

    def has(self, name: str) -> bool:
        """Return whether the resolver answers for the model."""
        return name in self.listed()

    async def answer(self, request: Request, body: bytes) -> Any | None:
        """Return the response if the body names one of these models, or None for a request to an agent."""
        del request, body


class ModelNames(Struct, frozen=True):
    """All model names of a server: its agents, and the models of the resolvers."""

    options: ServerOptions
    resolvers: Sequence[ModelResolver]
    named_agents: Callable[[], Awaitable[Sequence[str]]]  # besides those of every server

    def agents(self) -> list[str]:
        """Return the agent names to list."""
        own = () if self._resolver_of(self.options.model) else (self.options.model,)
        on = [AGENT_ON + target.name for target in self.options.targets]
        return list(dict.fromkeys([*own, AGENT_NAMES[0], *on]))

    def is_agent(self, name: str) -> bool:
        """Return whether the name runs an agent. Some do that aren't listed."""
        return name in AGENT_NAMES or name in self.agents()

    async def owner_of(self, name: str) -> str:
        """Return the model's owner; empty if the model is unknown."""
        if self.is_agent(name):
            return AGENT_OWNER
        resolver = self._resolver_of(name)
        if resolver is not None:
            return resolver.owner
        return AGENT_OWNER if name in await self.named_agents() else ""

    def listed(self, named: Sequence[str] = ()) -> dict[str, str]:
        """Return every name that can be listed, with its owner."""
        agents = dict.fromkeys([*self.agents(), *named], AGENT_OWNER)
        return agents | {
            name: one.owner for one in self.resolvers for name in one.listed() if name not in agents
        }

    async def insist_on_agent(self, name: str | None, request: Request) -> None:
        """Raise a Problem if a client names an agent that this server doesn't have."""
        if name and not is_hermes(request) and not self.is_agent(name):
            named = await self.named_agents()
            if name not in named:
                raise self.not_found(name, named)

    def not_found(self, name: str, named: Sequence[str] = ()) -> Problem:
        """Return the error for an unknown model."""
        known = ", ".join(list(self.listed(named))[:LISTED_IN_ERRORS_MAX])
        text = f"Model not found: {name[:100]}. This server has: {known}"
        return Problem(404, text, code="model_not_found", param="model")

    def _resolver_of(self, name: str) -> ModelResolver | None:
        return next((one for one in self.resolvers if one.has(name)), None)


def agent_model(name: str) -> str:
    """Return the target in an agent's name, or else the name itself."""
    return name.removeprefix(AGENT_ON)


def is_hermes(request: Request) -> bool:
    """Return whether one of hermes' own clients asks: they name their session, or its key, in a header.

    They always get the agent, because hermes-agent ignores the model's name.
    """
    return any(name.startswith(b"x-hermes-") for name, _ in request.scope["headers"])
