"""Capabilities of nodes (their targets, tools and MCP servers, with digests), and requirements of runs.

A capability is a text such as `target:main=3f2a…`. Without a digest, only the name matters.
"""

from collections.abc import Iterable, Sequence

from holdfast.folds.run import Run
from holdfast.interfaces.nodes import Node
from holdfast.policy.tool_names import BUILT_IN, MCP_PREFIX

_WORDS = {
    "target": "the target",
    "tool": "the tool",
    "mcp": "the MCP server",
    "model": "the model",
    "feature": "the feature",
}


def names_in(offers: Iterable[str]) -> frozenset[str]:
    """Return the capabilities without digests."""
    return frozenset(one.partition("=")[0] for one in offers)


def needs_of(runs: Iterable[Run], *, offered: frozenset[str]) -> frozenset[str]:
    """Return the requirements of open runs. `offered` has the capabilities of all nodes.

    A model that no node has ever offered is a client's name for the default one.
    """
    found: set[str] = set()
    for run in runs:
        model = run.settings.model
        if model and (run.target == model or not offered.isdisjoint((f"target:{model}", f"model:{model}"))):
            found.add(f"target:{model}")
        found.update(_need_of_tool(call.own_tool) for call in run.unfinished_tools)
    return frozenset(found - {""})


def _need_of_tool(name: str) -> str:
    if name.startswith(MCP_PREFIX):
        return f"mcp:{name.removeprefix(MCP_PREFIX).partition('__')[0]}"
    return f"tool:{name}" if name in BUILT_IN else ""  # others are a client's own


def missing(needs: Iterable[str], offers: Iterable[str]) -> frozenset[str]:
    """Return the requirements that a node lacks. A target can be named by its model."""
    has = names_in(offers)
    return frozenset(
        need for need in needs if need not in has and f"model:{need.removeprefix('target:')}" not in has
    )


def missing_everywhere(needs: frozenset[str], nodes: Sequence[Node]) -> tuple[str, ...]:
    """Return what the best node lacks to continue a run; empty if one has everything."""
    lacks = [missing(needs, node.offers) for node in nodes if node.lease_left_s > 0]
    return tuple(sorted(min(lacks, key=len, default=needs)))


def needs_text(lacking: Iterable[str]) -> str:
    """Describe that no running node can continue the run."""
    said = [f"{_WORDS[kind]} {name}" for kind, _, name in (one.partition(":") for one in lacking)]
    return (
        f"Waiting for a server that has {' and '.join(said)}: no running server does. Configure it, or stop "
        "the run."
    )


def differences(nodes: Sequence[Node]) -> dict[str, tuple[str, ...]]:
    """For each node by name, what others offer and it doesn't, or not in the same way."""
    every = {offer for node in nodes for offer in node.offers}
    return {
        node.name: tuple(sorted({offer.partition("=")[0] for offer in every - set(node.offers)}))
        for node in nodes
    }
