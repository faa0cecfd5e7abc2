"""Response bodies for nodes: servers that share a store."""

from holdfast.api.body import ResponseBody


class NodeShown(ResponseBody, frozen=True, kw_only=True):
    """A server. `lease_left_s` is null if the store isn't shared.

    `homes` lists the nodes and volumes whose sessions it can continue, as `node:NAME` or `volume:NAME`.
    `lacks` lists targets, tools and MCP servers that other servers have and this one doesn't, or configures
    differently.
    """

    name: str
    url: str
    is_this: bool
    lease_left_s: float | None
    homes: tuple[str, ...]
    sessions: int
    lacks: tuple[str, ...] = ()


class NodeList(ResponseBody, frozen=True, kw_only=True):
    """All servers that share the store, sorted by name."""

    data: tuple[NodeShown, ...]
