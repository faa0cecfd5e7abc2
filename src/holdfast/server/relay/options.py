"""The options of the relay: what is relayed where, for how long, and what is kept of it."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from holdfast.models.attempt import CallDeps
from holdfast.targets import Target

Keep: TypeAlias = Literal["usage", "all", "none"]

BODY_BYTES_MAX = 32 * 1024 * 1024


def _new_id() -> str:
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayOptions:
    """All options of the relay; without `calls`, nothing is relayed."""

    calls: CallDeps | None = None
    targets: tuple[Target, ...] = ()
    models: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    headers: tuple[str, ...] = ()  # further headers that go up
    wait_s: float = 60.0  # a longer wait is left to the client
    hold_s: float = 10.0  # how long a response is held while attempts can still be replaced unseen
    keep_alive_s: float = 15.0
    body_bytes_max: int = BODY_BYTES_MAX
    keep: Keep = "usage"
    server_id: str = field(default_factory=_new_id)  # in `Via`, so that a loop is noticed
