"""`holdfast nodes`: the servers that share a store."""

from collections.abc import Mapping

from holdfast.api.nodes import NodeShown
from holdfast.cli.attach import OK, Attached, with_running_server
from holdfast.cli.terminal.columns import print_columns, print_json


def list_nodes(flags: Mapping[str, object], *, form: str) -> int:
    """Print the servers that share the store."""

    async def work(attached: Attached) -> int:
        nodes = await attached.client.nodes()
        if form == "json":
            print_json(nodes)
        else:
            print_columns(
                ("NODE", "SESSIONS", "LEASE", "URL", "HOMES", "LACKS"), [_node(one) for one in nodes]
            )
        return OK

    return with_running_server(flags, work)


def _node(one: NodeShown) -> tuple[str, ...]:
    name = f"{one.name or 'this server'}{' (this one)' if one.is_this and one.name else ''}"
    return (
        name,
        str(one.sessions),
        _lease(one.lease_left_s),
        one.url,
        " ".join(one.homes),
        " ".join(one.lacks),
    )


def _lease(left_s: float | None) -> str:
    if left_s is None:
        return "none needed"
    return f"{left_s:g} s" if left_s else "expired"
