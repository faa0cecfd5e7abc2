"""Connections that have brought no key yet: at most so many of them, holding at most so many bytes."""

from typing import Protocol


class Stranger(Protocol):
    """A connection that can be cut."""

    def cut(self) -> None:
        """Close it at once; it does not call back."""
        ...


class Strangers:
    """Who is over the limit is not refused: the oldest are cut, since whoever means well is soon done."""

    def __init__(self, connections_max: int, bytes_max: int) -> None:
        self._connections_max = connections_max
        self._bytes_max = bytes_max
        self._held: dict[Stranger, int] = {}  # the oldest first
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, who: Stranger, held_bytes: int) -> None:
        """It holds so many bytes of headers and bodies now."""
        self._bytes += held_bytes - self._held.get(who, 0)
        self._held[who] = held_bytes
        while len(self._held) > self._connections_max or (
            self._bytes > self._bytes_max and len(self._held) > 1
        ):
            oldest = next(iter(self._held))
            self.forget(oldest)
            oldest.cut()

    def forget(self, who: Stranger) -> None:
        """It is gone, or it is known now; also for one that is not here."""
        self._bytes -= self._held.pop(who, 0)
