"""Routes that bring a document and no answer of a chat model: embeddings, counts, plain completions."""

from collections.abc import Mapping
from types import MappingProxyType

from holdfast.server.problems import Problem
from holdfast.server.relay.lifecycle import DocumentParser
from holdfast.server.relay.surfaces import COMMENT, Surface
from holdfast.targets import Target

PLAIN_PATHS: Mapping[str, str] = MappingProxyType(
    {"/v1/completions": "/completions", "/v1/embeddings": "/embeddings"}
)


INPUT_TOKENS = Surface("responses", "/responses/input_tokens", COMMENT, DocumentParser, is_free=True)
COMPACTING = Surface("responses", "/responses/compact", COMMENT, DocumentParser)


def plain_surface(path: str, targets: tuple[Target, ...]) -> Surface:
    """The route at the first target that can have it; raises a Problem if none can."""
    able = [target for target in targets if target.wire != "anthropic"]
    if targets and not able:
        raise not_at_target(path, targets[0])
    return Surface(able[0].wire if able else "chat", path, COMMENT, DocumentParser)


def not_at_target(path: str, target: Target) -> Problem:
    """The target's protocol hasn't got the route."""
    text = (
        f"The target {target.name} uses another protocol ({target.wire}), which has no {path}. Choose a "
        "model whose target supports it"
    )
    return Problem(404, text, code="route_not_served", param="model")


def not_for_agents(name: str, path: str) -> Problem:
    """An agent was named where only models answer."""
    text = (
        f"{name[:100]} is an agent, but {path} serves only relayed models: those listed by GET /v1/models "
        "as owned by holdfast-relay. To run the agent, use /v1/chat/completions or /v1/responses"
    )
    return Problem(404, text, code="route_not_served", param="model")
