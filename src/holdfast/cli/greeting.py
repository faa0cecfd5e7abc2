"""The first word with the server that runs: is it there, is it one of ours, and of this version."""

import asyncio
import sys
from typing import TYPE_CHECKING

from holdfast import __version__
from holdfast.client.errors import BadAnswer, Refused, Unreachable

if TYPE_CHECKING:
    from holdfast.client import Client

NO_KEY = "invalid_api_key"


async def greet(client: "Client", url: str, *, within_s: float) -> None:
    """Wait until it answers; raises Unreachable, or BadAnswer if it is none of ours."""
    try:
        async with asyncio.timeout(within_s):
            found = await client.health()
    except TimeoutError:
        raise Unreachable(url, "it did not answer in time") from None
    except (Refused, BadAnswer) as error:
        raise BadAnswer(f"what answers at {url} is no Holdfast server: {error}") from error
    if found.version != __version__:
        # It is said and not refused: mostly all goes well, and if it does not, this is why.
        of_it = f"is Holdfast {found.version}" if found.version else "does not say its version"
        print(
            f"holdfast: the server {of_it}, and this is {__version__}; restart it to have both the same",
            file=sys.stderr,
        )


def said(error: BaseException) -> str:
    """What went wrong, and what to do, in one line."""
    if isinstance(error, Refused) and error.code == NO_KEY:
        return (
            "the server does not take the key of this configuration (server.api_keys, else the file api-key "
            "in the data directory); use the --config of the server, or a key that it knows"
        )
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
