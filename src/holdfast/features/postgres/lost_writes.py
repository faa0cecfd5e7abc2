"""The alarm that a database raises when it loses writes that it had confirmed; health and doctor show it."""

import msgspec

NOTE = "store/lost-writes"
SHOWN_MS = 24 * 3_600_000


class LostWrites(msgspec.Struct, frozen=True):
    """What a node found missing last: how many appends, and how many of them it wrote again."""

    at_ms: int
    node: str
    missing: int
    restored: int
    moved: tuple[str, ...] = ()  # sessions whose events have other seqs now, so readers begin anew

    @property
    def text(self) -> str:
        """What happened, for people."""
        return (
            f"the database lost {self.missing} writes that it had confirmed; node {self.node} wrote "
            f"{self.restored} of them again"
        )


def loss_in(note: bytes | None, *, now_ms: int) -> LostWrites | None:
    """The loss that a note tells of, if it was within the last day."""
    found = msgspec.json.decode(note, type=LostWrites) if note else None
    return found if found is not None and now_ms - found.at_ms < SHOWN_MS else None
