"""Request and response bodies for API keys and browser sign-in."""

from typing import Annotated, Literal

import msgspec

from holdfast.api.body import ALWAYS_FALSE, ALWAYS_TRUE, ResponseBody, one_of
from holdfast.api.operation import SCOPES, Scope


class SignInRequest(msgspec.Struct):
    """The body of POST /api/sign-in: the one-time token of the printed link, or an API key."""

    token: str | None = None
    key: str | None = None


class TicketRequest(msgspec.Struct):
    """The body of POST /api/tickets: the exact path and query to be requested."""

    path: str


class CreateKeyRequest(msgspec.Struct):
    """The body of POST /api/keys."""

    name: str
    scopes: Annotated[list[Scope] | None, msgspec.Meta(description="Scopes of the key. Default: all.")] = None


class SignedIn(ResponseBody, frozen=True):
    """The `Set-Cookie` header has the cookie. Send `page` with it as `X-Holdfast-Page`."""

    signed_in: Annotated[bool, ALWAYS_TRUE]
    name: str
    page: str
    scopes: tuple[Scope, ...]

    def __repr__(self) -> str:
        """Keep the secret out of logs and tracebacks."""
        return f"SignedIn({self.name!r})"


class SignedOut(ResponseBody, frozen=True):
    """The cookie no longer works."""

    signed_in: Annotated[bool, ALWAYS_FALSE]


class SignInLink(ResponseBody, frozen=True):
    """The token for a link (`/#token=…`) that signs in one browser, once."""

    token: str
    expires_in_s: int

    def __repr__(self) -> str:
        """Keep the token out of logs and tracebacks."""
        return "SignInLink()"


class TicketIssued(ResponseBody, frozen=True):
    """The value for the query parameter `ticket`."""

    ticket: str
    expires_in_s: int


class KeyShown(ResponseBody, frozen=True):
    """A key without its secret."""

    name: str
    source: Literal["configured", "made", "added"]
    created_at: float | None
    scopes: tuple[Annotated[str, one_of(*SCOPES)], ...]


class KeyMade(KeyShown, frozen=True):
    """A new key. Only this response contains its secret."""

    key: str

    def __repr__(self) -> str:
        """Keep the secret out of logs and tracebacks."""
        return f"KeyMade({self.name!r})"


class KeyList(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """All keys."""

    data: tuple[KeyShown, ...]


class KeyRevoked(ResponseBody, frozen=True):
    """The key no longer works."""

    name: str
    deleted: Annotated[bool, ALWAYS_TRUE]
