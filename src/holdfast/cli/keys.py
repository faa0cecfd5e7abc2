"""`holdfast keys`: list, add and revoke API keys."""

import sys
from collections.abc import Mapping, Sequence

from holdfast.cli.attach import OK, Attached, with_reader, with_server
from holdfast.cli.reader import Reader
from holdfast.cli.terminal.columns import print_columns, print_json, when
from holdfast.cli.terminal.output import echo, echo_error

ORIGINS: Mapping[str, str] = {
    "configured": "the configuration (server.api_keys)",
    "made": "the first start (the file api-key in the data directory)",
    "added": "holdfast keys add",
}


def list_keys(flags: Mapping[str, object], *, form: str) -> int:
    """Print the names of all keys."""

    async def work(reader: Reader) -> int:
        keys = await reader.keys()
        if form == "json":
            print_json(keys)
        else:
            rows = [
                (one.name, when(one.created_at or 0), " ".join(one.scopes), ORIGINS[one.source])
                for one in keys
            ]
            print_columns(("NAME", "ADDED", "SCOPES", "FROM"), rows)
        return OK

    return with_reader(flags, work)


def add_key(flags: Mapping[str, object], name: str, *, scopes: Sequence[str], form: str) -> int:
    """Make a key and print it, this once."""

    async def work(attached: Attached) -> int:
        made = await attached.client.add_key(name, scopes)
        if form == "json":
            print_json({"name": made.name, "key": made.key})
        else:
            echo(made.key)
            if sys.stdout.isatty():
                echo_error("Save this key now. You can't see it again.")
        return OK

    return with_server(flags, work, works="nothing")


def revoke_key(flags: Mapping[str, object], name: str) -> int:
    """The key opens nothing any more."""

    async def work(attached: Attached) -> int:
        await attached.client.revoke_key(name)
        echo("Revoked.")
        return OK

    return with_server(flags, work, works="nothing")
