"""The channels to which platforms can deliver updates here: each is open while its channel runs."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

import msgspec

# Returns when it is on disk: what to answer as JSON, or None for an empty answer. Raises BadUpdate or NotNow.
Deliver: TypeAlias = Callable[[bytes], Awaitable[msgspec.Struct | None]]


class BadUpdate(Exception):
    """An update is invalid. The text is the reason."""


class NotNow(Exception):
    """The update can't be accepted yet and must be redelivered later."""


class WebhookEndpoints:
    """The channels that take deliveries now, by name; each is open while its channel runs here."""

    def __init__(self) -> None:
        self._open: dict[str, Deliver] = {}
        self._held: set[str] = set()

    @contextmanager
    def held(self, log_id: str) -> Generator[None]:
        """Say that the channel with this log runs here, until the block ends."""
        self._held.add(log_id)
        try:
            yield
        finally:
            self._held.discard(log_id)

    def holds(self, log_id: str) -> bool:
        """Whether the channel with this log runs here."""
        return log_id in self._held

    @contextmanager
    def opened(self, name: str, deliver: Deliver) -> Generator[None]:
        """Take deliveries until the block ends."""
        self._open[name] = deliver
        try:
            yield
        finally:
            del self._open[name]

    def get(self, name: str) -> Deliver | None:
        """Return the channel's endpoint; None if it doesn't run here."""
        return self._open.get(name)
