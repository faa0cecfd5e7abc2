"""GET /api/nodes: the servers that share one store."""

import math
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from holdfast.agent.capabilities import differences
from holdfast.api.nodes import NodeList, NodeShown
from holdfast.interfaces.nodes import Node
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.routing import Endpoint
from holdfast.server.transport.bodies import json_response


class NodeRoutes:
    """The routes under /api/nodes."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def list(self, request: Request) -> Response:
        """GET /api/nodes."""
        del request
        store = self._deps.store
        nodes = await store.nodes()
        lacks = differences(nodes)
        shown = [_shown(node, store.node, lacks=lacks[node.name]) for node in nodes]
        return json_response(NodeList(data=tuple(shown)))


def _shown(node: Node, this: Node, *, lacks: tuple[str, ...]) -> NodeShown:
    return NodeShown(
        name=node.name,
        url=node.url,
        is_this=node.incarnation == this.incarnation,
        lease_left_s=None if math.isinf(node.lease_left_s) else round(node.lease_left_s, 1),
        homes=node.homes,
        sessions=node.sessions,
        lacks=lacks,
    )


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    deps = parts.deps
    return {
        "nodes.list": NodeRoutes(deps).list,
    }
