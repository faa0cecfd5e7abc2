"""Changes that runs made, file by file: found by comparing the snapshots around their turns."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast.features.undo.folds import snapshots_of
from holdfast.features.undo.packs import Entry, differences
from holdfast.features.undo.snapshots import LeftOut, Snapshots
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
    may_have_existed: bool = False  # created, unless it's one of too many files that the snapshot left out

    @property
    def kind(self) -> ChangeKind:
        """Return the kind of change."""
        if self.before is None:
            return "created"
        if self.after is None:
            return "deleted"
        return "mode" if self.before.name == self.after.name else "changed"


class TurnTrees(Struct, frozen=True):
    """The files before and after a turn, and the snapshot that has those before."""

    before: bytes
    after: bytes
    snapshot: bytes


def composed(turns: Iterable[TurnTrees], snapshots: Snapshots) -> dict[bytes, Change]:
    """The net changes of turns, in order. Blocks.

    A file that the first snapshot left out isn't created by a turn after which it's stored: what it contained
    before is unknown.
    """
    changes: dict[bytes, Change] = {}
    for turn in turns:
        left_out: LeftOut | None = None
        for path, was, now in differences(turn.before, turn.after, read=snapshots.tree):
            earlier = changes.get(path)
            if earlier is not None:
                interleaved = earlier.interleaved or earlier.after != was
                changes[path] = replace(earlier, after=now, interleaved=interleaved)
            elif was is not None:
                changes[path] = Change(path, was, now)
            else:
                left_out = left_out or snapshots.left_out(turn.snapshot)
                if not left_out.has(path):
                    changes[path] = Change(path, was, now, may_have_existed=not left_out.is_complete)
    return {
        path: change
        for path, change in sorted(changes.items())
        if change.before != change.after or change.interleaved
    }


class Turns(Struct, frozen=True):
    """The turns of some runs; `unknown` is true if the state after one of them was never stored."""

    trees: tuple[TurnTrees, ...]
    unknown: bool
    why_not: tuple[str, ...]  # why turns have no snapshot at all


def turns_of(runs: Iterable[Run], snapshots: Snapshots, *, now: bytes | None) -> Turns:
    """The turns of runs, in order; `now` stands for a state after that was never stored. Blocks."""
    trees: list[TurnTrees] = []
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
            name = bytes.fromhex(taken.snapshot)
            before, after = snapshots.root_of(name), now
            if following is not None and following.when == "after" and following.snapshot:
                after = snapshots.root_of(bytes.fromhex(following.snapshot))
            else:
                unknown = True
            if after is not None:
                trees.append(TurnTrees(before, after, name))
    return Turns(tuple(trees), unknown, tuple(dict.fromkeys(why_not)))


class ShownChange(Struct, frozen=True):
    """A change as people read it."""

    diff: str
    binary: bool
    before_bytes: int | None
    after_bytes: int | None


def shown_change(change: Change, name: str, *, blob: Callable[[bytes], bytes]) -> ShownChange:
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
