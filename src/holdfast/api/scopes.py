"""What a key may do: each operation names the scopes of which a key needs one."""

from typing import Literal, TypeAlias

Scope: TypeAlias = Literal["chat", "approve", "admin", "relay"]

SCOPES: tuple[Scope, ...] = ("chat", "approve", "admin", "relay")
EVERY = SCOPES  # for an operation that any key may call
NO_KEY: tuple[Scope, ...] = ()  # for an operation that needs no key at all
