"""Where a session's files are: on one machine, or on a volume that several machines share."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct, field

from holdfast.interfaces.nodes import SessionPlace
from holdfast.interfaces.tool import ToolPlace

_NODE, _VOLUME = "node:", "volume:"


class Placement(Struct, frozen=True):
    """The homes that this node offers: itself, and the volumes that it lists, each with its folder.

    Without a name there is only one machine, so no session needs a home.
    """

    node: str = ""
    volumes: Mapping[str, Path] = field(default_factory=dict[str, Path])

    @property
    def all(self) -> tuple[str, ...]:
        """The homes of sessions that this node can continue."""
        if not self.node:
            return ()
        return (f"{_NODE}{self.node}", *(f"{_VOLUME}{name}" for name in self.volumes))

    def home_for(self, place: ToolPlace, workspace: Path, *, current: str) -> str:
        """The session's home once a tool works at this place; empty if that changes nothing."""
        if not self.node or place == "anywhere" or current.startswith(_NODE):
            return ""
        needed = f"{_NODE}{self.node}" if place == "node" else self._home_of(workspace)
        return needed if needed != current else ""

    def _home_of(self, workspace: Path) -> str:
        for name, folder in self.volumes.items():
            if workspace.is_relative_to(folder):
                return f"{_VOLUME}{name}"
        return f"{_NODE}{self.node}"


def in_words(home: str) -> str:
    """The home as a person reads it."""
    kind, _, name = home.partition(":")
    return f"a server with the volume {name}" if kind == "volume" else f"server {name}"


def waiting_text(place: SessionPlace) -> str:
    """Describe that no running node can reach the session's files."""
    since = ""
    if place.away_since_ms:
        at = datetime.fromtimestamp(place.away_since_ms / 1000, UTC)
        since = f", which has been gone since {at:%Y-%m-%d %H:%M} UTC"
    return (
        f"Waiting for {in_words(place.home)}{since}. Start it again, stop the run, or move the session to "
        "another server, where its files may differ."
    )
