"""What a key may do: each operation names the scopes of which a key needs one."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from starlette.types import Scope as Asked

from holdfast.server.problems import Problem

Scope: TypeAlias = Literal["chat", "approve", "admin"]

SCOPES: tuple[Scope, ...] = ("chat", "approve", "admin")
EVERY = SCOPES  # for an operation that any key may call
NO_KEY: tuple[Scope, ...] = ()  # for an operation that needs no key at all

# Where the edge leaves them, in the ASGI scope of a request.
KEY_NAME = "holdfast.key"
KEY_SCOPES = "holdfast.scopes"
SIGN_IN = "holdfast.sign_in"  # the cookie that let the request in, if one did
BY_TICKET = "holdfast.by_ticket"  # whether a ticket did


def insist_on_scope(asked: Asked, needed: Sequence[Scope]) -> None:
    """Raise a Problem that names the missing scope; nothing of the request was read or looked up before."""
    held: frozenset[Scope] = asked.get(KEY_SCOPES, frozenset())
    if not needed or not held.isdisjoint(needed):
        return
    has = ", ".join(one for one in SCOPES if one in held) or "none"
    raise Problem(
        403,
        f"This key lacks the scope '{needed[0]}' (it has: {has}). Use a key that has it: "
        f"`holdfast keys add NAME --scope {needed[0]}` makes one",
        code="missing_scope",
        param=needed[0],
    )
