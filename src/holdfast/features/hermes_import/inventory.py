"""Lists everything in a hermes home: moved, left with the reason, or unknown."""

import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeAlias, cast

import msgspec

from holdfast.config.toml import parse_toml
from holdfast.safe_text import safe_line

Fate: TypeAlias = Literal["moved", "left", "unknown"]
NAME_CHARS_MAX = 200
UNKNOWN = "Holdfast doesn't know it"


class Known(msgspec.Struct, frozen=True):
    """The names that are left, and why: files, keys of config.yaml and variables of .env."""

    files: Mapping[str, str]
    config: Mapping[str, str]
    env: Mapping[str, str]


class Inventory:
    """The fate of each item; names of equal fate and reason share a line."""

    def __init__(self) -> None:
        text = Path(__file__).with_name("inventory.toml").read_text("utf-8")
        self._known = msgspec.convert(parse_toml(text), Known)
        self._lines: dict[tuple[Fate, str, str], list[str]] = {}

    def lines(self) -> Iterator[str]:
        """Yield what was found, moved items first."""
        for fate in ("moved", "left", "unknown"):
            for (own, place, why), names in sorted(self._lines.items()):
                if own == fate:
                    listed = ", ".join(safe_line(name, NAME_CHARS_MAX) for name in names)
                    yield f"{fate}: {f'{place}: ' if place else ''}{listed}{f': {why}' if why else ''}"

    def config(self, config: Mapping[str, object], moved: Mapping[str, str]) -> None:
        """Add each key; `moved` has dotted names that were used, or why they weren't."""
        for key, value in config.items():
            # Tables with moved keys, or with keys that have separate reasons, are listed key by key.
            is_split = any(name.startswith(f"{key}.") for name in (*moved, *self._known.config))
            if isinstance(value, dict) and is_split and key not in moved:
                for inner in cast("Mapping[object, object]", value):
                    self._add("config.yaml", f"{key}.{inner}", moved, self._known.config)
            else:
                self._add("config.yaml", key, moved, self._known.config)

    def variables(self, environ: Mapping[str, str], moved: frozenset[str]) -> None:
        """Add each variable of .env."""
        for name in environ:
            self._add(".env", name, dict.fromkeys(moved, ""), self._known.env)

    def files(self, home: Path, moved: frozenset[str]) -> None:
        """Add each file and folder. Blocks."""
        split = {name.partition("/")[0] for name in (*moved, *self._known.files) if "/" in name}
        for name in _names(home):
            if name in split and (home / name).is_dir():
                for inner in _names(home / name):
                    self._add("", f"{name}/{inner}", dict.fromkeys(moved, ""), self._known.files)
            else:
                self._add("", name, dict.fromkeys(moved, ""), self._known.files)

    def _add(self, place: str, name: str, moved: Mapping[str, str], known: Mapping[str, str]) -> None:
        why = _matching(name, known)
        fate: Fate = "unknown" if why is None else "left"
        if name in moved:
            fate, why = ("left", moved[name]) if moved[name] else ("moved", "")
        self._lines.setdefault((fate, place, UNKNOWN if why is None else why), []).append(name)


def _matching(name: str, known: Mapping[str, str]) -> str | None:
    """Return the reason for the name or, in the order of the file, for a pattern."""
    if name in known:
        return known[name]
    return next(
        (why for pattern, why in known.items() if "*" in pattern and fnmatchcase(name, pattern)), None
    )


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries)
    except OSError:
        return []
