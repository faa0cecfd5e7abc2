"""Fair shares: how API keys share a limited number of places for runs, streams or processes."""

from collections import Counter


def with_extra(most: int) -> int:
    """The limit with its extra places."""
    return most + most // 4


class FairShare:
    """Counts the places that each key holds, and decides who gets another.

    While there is room, every key gets one. At the limit, keys that hold less than a sixteenth of it share
    extra places, a quarter of the limit, so that no key can lock out the others.
    """

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self.used = 0

    def held(self, key: str) -> int:
        """How many places the key holds."""
        return self._held[key]

    def has_room(self, key: str, most: int) -> bool:
        """Whether the key gets one more place, if there are `most`."""
        if self.used < most:
            return True
        few = max(1, most // 16)
        if self._held[key] >= few:
            return False
        of_small = sum(held for held in self._held.values() if held <= few)
        # Large holders count as no more than the limit: runs that continue after a wait can exceed it.
        return min(self.used - of_small, most) + of_small < with_extra(most)

    def acquire(self, key: str) -> None:
        """Count one more place."""
        self.used += 1
        self._held[key] += 1

    def release(self, key: str) -> None:
        """Count one place less."""
        self.used -= 1
        self._held[key] -= 1
        if not self._held[key]:
            del self._held[key]
