"""Binds the endpoints of runs."""

from collections.abc import Mapping

from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.routing import Endpoint
from holdfast.server.runs.inputs import RunInputRoutes


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    deps, runs = parts.deps, parts.runs
    inputs = RunInputRoutes(deps)
    return {
        "runs.start": runs.start,
        "runs.show": runs.show,
        "runs.events": runs.events,
        "runs.list": runs.list,
        "inputs.stop": inputs.stop,
        "inputs.approve": inputs.approve,
        "inputs.rule": inputs.rule,
        "inputs.question": inputs.question,
        "inputs.say": inputs.say,
        "inputs.retry": inputs.retry,
        "inputs.compact": inputs.compact,
        "inputs.gate": inputs.gate,
        "inputs.approvals": inputs.approvals,
    }
