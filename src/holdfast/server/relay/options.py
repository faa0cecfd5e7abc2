"""The options of the relay: what is relayed where, and for how long."""

import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from holdfast.targets import Target
from holdfast.values import RelayKeep

if TYPE_CHECKING:  # commands that only read keys load these options too, and need no HTTP client
    from holdfast.models.call_deps import CallDeps

BODY_BYTES_MAX = 32 * 1024 * 1024


def _new_id() -> str:
    return secrets.token_hex(8)


class RelayOptions(Struct, frozen=True, kw_only=True):
    """All options of the relay; without `calls`, nothing is relayed."""

    calls: "CallDeps | None" = None
    targets: tuple[Target, ...] = ()
    models: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    headers: tuple[str, ...] = ()  # further headers that go up
    wait_s: float = 60.0  # a longer wait is left to the client
    hold_s: float = 10.0  # how long a response is held while attempts can still be replaced unseen
    keep_alive_s: float = 15.0
    body_bytes_max: int = BODY_BYTES_MAX
    keep: RelayKeep = "usage"
    join_s: float = 30.0  # how long a call lives after its client has left, if a repeat may join it
    server_id: str = field(default_factory=_new_id)  # in `Via`, so that a loop is noticed
