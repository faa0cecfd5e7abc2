"""`holdfast sign-in`: a fresh link for the page of the server that runs."""

import asyncio
import sys
from collections.abc import Mapping

from holdfast.cli.attach import EXPECTED_ERRORS, FAILED, OK, check_server, report_error
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.client.address import ClientPatience
from holdfast.client.errors import Refused
from holdfast.host.data_dir import DataDirectory, find_data_directory

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
