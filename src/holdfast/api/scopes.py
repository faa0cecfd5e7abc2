"""Scopes of API keys. A key needs one of the scopes that an operation lists."""

from typing import Literal, TypeAlias

Scope: TypeAlias = Literal["chat", "approve", "admin", "relay"]

SCOPES: tuple[Scope, ...] = ("chat", "approve", "admin", "relay")
EVERY = SCOPES  # any key can call it
NO_KEY: tuple[Scope, ...] = ()  # no key needed
