"""`holdfast sign-in`: a fresh link for the page of the server that runs."""

import asyncio
import sys
from collections.abc import Mapping

from holdfast.cli.attach import FAILED, OK, TROUBLE, told
from holdfast.cli.greeting import greet
from holdfast.client.address import Patience
from holdfast.client.errors import Refused
from holdfast.host.data_dir import Place, place_of

OPEN_TO_ALL = "no_keys_needed"


def sign_in(flags: Mapping[str, object], *, url: str) -> int:
    """Print the link, to a pipe too: whoever can run this can read the key anyway; the exit code."""
    try:
        return asyncio.run(_sign_in(place_of(flags), url.rstrip("/")))
    except TROUBLE as error:
        return told(error)


async def _sign_in(place: Place, url: str) -> int:
    from holdfast.client.client import Client

    found = await asyncio.to_thread(place.address)
    if found is None:
        print(
            f"holdfast: no server works on {place.data_dir}; start one with `holdfast serve`, or name its "
            "data directory with --data-dir",
            file=sys.stderr,
        )
        return FAILED
    page = url or found.url
    patience = Patience(call_s=10.0)
    async with Client(where=place.where, patience=patience) as client:
        await greet(client, found.url, within_s=patience.call_s)
        try:
            link = await client.sign_in_link()
        except Refused as error:
            if error.code != OPEN_TO_ALL:
                raise
            print(page)  # nobody signs in there
            return OK
    print(f"{page}/#token={link.token}")
    if sys.stdout.isatty():
        minutes = link.expires_in_s // 60
        print(f"It signs one browser in, once, within {minutes} minutes.", file=sys.stderr)
    return OK
