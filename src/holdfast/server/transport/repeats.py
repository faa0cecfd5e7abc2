"""Automatic client retries, and the state left by the first attempt.

The official packages retry after a timeout or a lost connection, with the same bytes and a retry count
header.
"""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Generic, TypeVar

from starlette.requests import Request

from holdfast.interfaces.clock import Clock
from holdfast.server.access.caller import KEY_NAME

KEPT_MAX = 1000
COUNT_HEADER = "x-stainless-retry-count"

Left = TypeVar("Left")


class Abandoned(Generic[Left]):
    """State left by disconnected readers, by request name. Each is returned once, for a limited time.

    `drop` is called with evicted state.
    """

    def __init__(self, clock: Clock, *, kept_s: float, drop: Callable[[Left], None] | None = None) -> None:
        self._clock = clock
        self._kept_s = kept_s
        self._drop = drop
        self._left: OrderedDict[str, tuple[Left, float]] = OrderedDict()

    def put(self, name: str, left: Left) -> None:
        """Keep this for a repeat of the request."""
        self._left[name] = (left, self._clock.steady_s())
        while len(self._left) > KEPT_MAX:
            _, (oldest, _) = self._left.popitem(last=False)
            if self._drop is not None:
                self._drop(oldest)

    def take(self, name: str) -> Left | None:
        """Return and remove the state of an earlier request with this name; None if missing or expired."""
        found = self._left.pop(name, None)
        if found is None:
            return None
        left, at_s = found
        return left if self._clock.steady_s() - at_s < self._kept_s else None


def is_repeat(request: Request) -> bool:
    """Whether the client says that it has sent this request before."""
    return request.headers.get(COUNT_HEADER, "0") not in {"", "0"}


def request_name(request: Request, body: bytes) -> str:
    """Return a digest of the sender, the target and the body."""
    whose: str = request.scope[KEY_NAME]
    path: str = request.scope["path"]
    return sha256(b"\0".join([whose.encode(), path.encode("utf-8", "surrogateescape"), body])).hexdigest()
