"""`holdfast keys`: list, add and revoke API keys.

`holdfast sign-in`: a fresh link for the page of the server that runs.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence

from holdfast.cli.attach import (
    EXPECTED_ERRORS,
    FAILED,
    OK,
    Attached,
    check_server,
    report_error,
    with_reader,
    with_server,
)
from holdfast.cli.reader import Reader
from holdfast.cli.terminal.columns import print_columns, print_json, when
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.client.address import ClientPatience
from holdfast.client.errors import Refused
from holdfast.host.data_dir import DataDirectory, find_data_directory

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


OPEN_TO_ALL = "no_keys_needed"


def sign_in(flags: Mapping[str, object], *, url: str) -> int:
    """Print the link, even to a pipe: anyone who can run this can read the key anyway."""
    try:
        return asyncio.run(_sign_in(find_data_directory(flags), url.rstrip("/")))
    except EXPECTED_ERRORS as error:
        return report_error(error)


async def _sign_in(directory: DataDirectory, url: str) -> int:
    from holdfast.client.client import Client

    found = await asyncio.to_thread(directory.address)
    if found is None:
        echo_error(
            f"holdfast: no server is running on {directory.data_dir}; start one with `holdfast serve`, "
            "or pass another data directory with --data-dir",
        )
        return FAILED
    server = directory.settings.server
    page = url or server.public_url.rstrip("/") or found.url + server.mount_path
    patience = ClientPatience(call_s=10.0)
    async with Client(where=directory.where, patience=patience) as client:
        await check_server(client, found.url, within_s=patience.call_s)
        try:
            link = await client.sign_in_link()
        except Refused as error:
            if error.code != OPEN_TO_ALL:
                raise
            echo(page)  # there is no sign-in
            return OK
    echo(f"{page}/#token={link.token}")
    if sys.stdout.isatty():
        minutes = link.expires_in_s // 60
        echo_error(f"The link signs one browser in. It works once, for {minutes} minutes.")
    return OK
