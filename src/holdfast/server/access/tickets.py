"""Tickets, which images and downloads send instead of a header: valid for one resource and one minute."""

import hmac
import secrets
from hashlib import sha256

from holdfast.interfaces.clock import Clock
from holdfast.server.access.keys import digest_of

TICKET_MS = 60_000
PARAMETER = "ticket"


class Tickets:
    """Makes and checks tickets; none is stored. With another `key` than those of other servers, only its own.

    A ticket works only with the cookie that it was made for, so it ends with its sign-in.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.key = secrets.token_bytes(32)

    def issue(self, cookie: str, target: str) -> str:
        """A ticket for this path and query."""
        until_ms = self._clock.now_ms() + TICKET_MS
        return f"{until_ms:x}.{self._mark(cookie, target, until_ms=until_ms)}"

    def opens(self, cookie: str, ticket: str, *, target: str) -> bool:
        """Whether the ticket is for exactly this path and query, and hasn't expired."""
        until, _, mark = ticket.partition(".")
        try:
            until_ms = int(until[:16], 16)
        except ValueError:
            return False
        # A ticket from the future was made before the clock was set back, and would last too long.
        if not 0 < until_ms - self._clock.now_ms() <= TICKET_MS:
            return False
        made = self._mark(cookie, target, until_ms=until_ms)
        return hmac.compare_digest(made.encode(), mark.encode("utf-8", "replace"))

    def _mark(self, cookie: str, target: str, *, until_ms: int) -> str:
        said = b"%b %d %b" % (digest_of(cookie), until_ms, target.encode("utf-8", "surrogateescape"))
        return hmac.new(self.key, said, sha256).hexdigest()


def without_ticket(query: str) -> tuple[str, str]:
    """The ticket in a query string, and the rest of the string."""
    parts = query.split("&")
    found = [one for one in parts if one.startswith(f"{PARAMETER}=")]
    rest = "&".join(one for one in parts if one not in found)
    return (found[0].removeprefix(f"{PARAMETER}=") if len(found) == 1 else "", rest)


def target_of(path: str, query: str) -> str:
    """Return the target of a ticket: the path as routes see it, and the query without the ticket."""
    return f"{path}?{query}"
