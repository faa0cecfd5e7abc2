"""The bodies of responses about nodes: the servers that share one store."""

from holdfast.api.body import ResponseBody


class NodeShown(ResponseBody, frozen=True, kw_only=True):
    """A server that shares the store; `lease_left_s` is null for one that has the store to itself.

    `homes` are the places whose sessions it can continue, as `node:NAME` or `volume:NAME`. `lacks` are the
    targets, tools and MCP servers that another server has and this one hasn't, or has set up differently.
    """

    name: str
    url: str
    is_this: bool
    lease_left_s: float | None
    homes: tuple[str, ...]
    sessions: int
    lacks: tuple[str, ...] = ()


class NodeList(ResponseBody, frozen=True, kw_only=True):
    """All servers that share the store, by name."""

    data: tuple[NodeShown, ...]
