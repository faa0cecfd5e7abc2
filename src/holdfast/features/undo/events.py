"""Events about the snapshots of workspaces."""

from typing import Literal

from holdfast.events.bases import Event, RunEvent


class SnapshotTaken(RunEvent, frozen=True, kw_only=True, tag="snapshot.taken"):
    """The workspace was stored, before the first change of a turn or after the last one.

    If it couldn't be stored, `snapshot` is empty, `why_not` is the reason, and the turn can't be undone.
    """

    turn: int
    when: Literal["before", "after"]
    workspace: str
    snapshot: str = ""
    files: int = 0
    not_covered: int = 0  # files and folders that aren't stored
    changed: int = 0  # files the run has changed so far; only after a turn
    overlaps: tuple[str, ...] = ()  # runs that could change the same files at the same time
    why_not: str = ""
    branch: str = ""  # of the workspace's git repository, which snapshots exclude; empty if HEAD is detached
    commit: str = ""  # the checked-out commit


EVENTS: tuple[type[Event], ...] = (SnapshotTaken,)
