"""The bodies of requests and responses about keys, and about browsers that sign in."""

from typing import Annotated

import msgspec

from holdfast.api.scopes import Scope


class SignInRequest(msgspec.Struct):
    """The body of POST /api/sign-in: the one-time token of the printed link, or an API key."""

    token: str | None = None
    key: str | None = None


class TicketRequest(msgspec.Struct):
    """The body of POST /api/tickets: the path with its query, exactly as it will be asked for."""

    path: str


class CreateKeyRequest(msgspec.Struct):
    """The body of POST /api/keys."""

    name: str
    scopes: Annotated[
        list[Scope] | None, msgspec.Meta(description="What the key may do; everything if it is not said.")
    ] = None
