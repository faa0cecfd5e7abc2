"""What runs changed, file by file: found by comparing the snapshots around their turns."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from holdfast.features.undo.folds import snapshots_of
from holdfast.features.undo.snapshots import Snapshots
from holdfast.features.undo.trees import Entry, Tree, differences
from holdfast.folds.run import Run
from holdfast.tools.files.edits import unified_diff

ChangeKind: TypeAlias = Literal["created", "changed", "deleted", "mode"]

DIFF_BYTES_MAX: Final = 512 * 1024  # of one side; a longer file is only named


class Change(Struct, frozen=True):
    """A file before and after; `interleaved` if someone else changed it between two turns."""

    path: bytes
    before: Entry | None
    after: Entry | None
    interleaved: bool = False

    @property
    def kind(self) -> ChangeKind:
        """What happened to it."""
        if self.before is None:
            return "created"
        if self.after is None:
            return "deleted"
        return "mode" if self.before.name == self.after.name else "changed"


def composed(turns: Iterable[tuple[bytes, bytes]], read: Callable[[bytes], Tree]) -> dict[bytes, Change]:
    """The net changes of turns, in order: each is the root before and the root after. Blocks."""
    changes: dict[bytes, Change] = {}
    for before, after in turns:
        for path, was, now in differences(before, after, read=read):
            earlier = changes.get(path)
            if earlier is None:
                changes[path] = Change(path, was, now)
            else:
                interleaved = earlier.interleaved or earlier.after != was
                changes[path] = Change(path, earlier.before, now, interleaved)
    return {
        path: change
        for path, change in sorted(changes.items())
        if change.before != change.after or change.interleaved
    }


class Turns(Struct, frozen=True):
    """The roots before and after each turn of some runs.

    `unknown` is true if the state after one of them was never stored.
    """

    roots: tuple[tuple[bytes, bytes], ...]
    unknown: bool
    why_not: tuple[str, ...]  # why turns have no snapshot at all


def turns_of(runs: Iterable[Run], snapshots: Snapshots, *, now: bytes | None) -> Turns:
    """The turns of runs, in order; `now` stands for a state after that was never stored. Blocks."""
    roots: list[tuple[bytes, bytes]] = []
    unknown = False
    why_not: list[str] = []
    for run in runs:
        for taken, following in pairwise([*snapshots_of(run), None]):
            assert taken is not None, "only the last one is None"
            if taken.when == "after":
                continue
            if not taken.snapshot:
                why_not.append(taken.why_not)
                continue
            before = snapshots.root_of(bytes.fromhex(taken.snapshot))
            if following is not None and following.when == "after" and following.snapshot:
                roots.append((before, snapshots.root_of(bytes.fromhex(following.snapshot))))
            else:
                unknown = True
                roots += [(before, now)] if now is not None else []
    return Turns(tuple(roots), unknown, tuple(dict.fromkeys(why_not)))


class ShownChange(Struct, frozen=True):
    """A change as people read it."""

    diff: str
    binary: bool
    before_bytes: int | None
    after_bytes: int | None


def shown(change: Change, name: str, *, blob: Callable[[bytes], bytes]) -> ShownChange:
    """The change with its diff; `blob` reads stored contents. Blocks."""
    before = blob(change.before.name) if change.before is not None else None
    after = blob(change.after.name) if change.after is not None else None
    sizes = (None if before is None else len(before), None if after is None else len(after))
    texts = _texts((before or b"", after or b""))
    if texts is None:
        return ShownChange("", binary=True, before_bytes=sizes[0], after_bytes=sizes[1])
    return ShownChange(
        _modes(change) + _diff(name, texts), binary=False, before_bytes=sizes[0], after_bytes=sizes[1]
    )


def _diff(name: str, texts: Sequence[str]) -> str:
    if max(map(len, texts)) > DIFF_BYTES_MAX:
        return f"--- {name}\n+++ {name}\n[too large to compare]\n"
    # A name must not be able to look like a line of the diff.
    return unified_diff(name.replace("\n", "\\n"), texts[0], after=texts[1])


def _texts(contents: tuple[bytes, bytes]) -> tuple[str, str] | None:
    """Both sides as text; None if one is binary."""
    if any(b"\0" in data[:8_000] for data in contents):
        return None
    try:
        return contents[0].decode(), contents[1].decode()
    except UnicodeDecodeError:
        return None


def _modes(change: Change) -> str:
    """Lines about what changed besides the contents."""
    if change.before is None or change.after is None or change.before.mode == change.after.mode:
        return ""
    return f"old mode {change.before.mode:o}\nnew mode {change.after.mode:o}\n"
