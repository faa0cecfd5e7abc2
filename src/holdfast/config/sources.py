"""Where each setting comes from, and how errors name that place."""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, cast

from msgspec import Struct

from holdfast.safe_text import exact_line

KeyPath: TypeAlias = tuple[str | int, ...]
SourceKind: TypeAlias = Literal[
    "flag", "environment", "file", "hermes", "known key", "local server", "default"
]

LINE_CHARS_MAX = 2_000
LISTED = {"targets": "target", "mcp_servers": "MCP server", "channels": "channel", "hooks": "hook"}


class SettingSource(Struct, frozen=True):
    """Where a setting's value comes from."""

    kind: SourceKind
    name: str = ""
    line: int = 0

    def __str__(self) -> str:
        """The place, so that a person can find it."""
        match self.kind:
            case "file":
                return f"{self.name}, line {self.line}" if self.line else self.name
            case "hermes":
                return f"{self.name} (of hermes-agent)"
            case "local server":
                return f"found at {self.name}"
            case "default":
                return "default"
            case "flag" | "environment" | "known key":
                return self.name


DEFAULT = SettingSource("default")


class ConfigIssue(Struct, frozen=True):
    """A problem with a setting, as the predicate of a sentence that never contains the value."""

    path: KeyPath
    text: str
    is_warning: bool = False


class BadConfiguration(Exception):
    """The configuration has errors; each line names a place and what is wrong there."""

    def __init__(self, lines: Iterable[str]) -> None:
        # Keys and file names in them can come from someone else.
        self.lines = tuple(exact_line(line)[:LINE_CHARS_MAX] for line in lines)
        super().__init__("\n".join(self.lines))


class SettingSources:
    """The source of every key that is set."""

    def __init__(self, given: Mapping[KeyPath, SettingSource], *, otherwise: SettingSource = DEFAULT) -> None:
        self._given = dict(given)
        self._otherwise = otherwise

    def of(self, path: KeyPath) -> SettingSource:
        """Return the source of exactly this key."""
        return self._given.get(path, DEFAULT)

    def near(self, path: KeyPath) -> SettingSource:
        """Where to look for an error in this key: at the key itself, else at the table around it."""
        for length in range(len(path), 0, -1):
            if (source := self._given.get(path[:length])) is not None:
                return source
        return self._otherwise


def sentence(issue: ConfigIssue, sources: SettingSources, *, tree: Mapping[str, object]) -> str:
    """The issue with its place in front."""
    place = sources.near(issue.path)
    subject = subject_of(issue.path, tree)
    return f"{place}: {subject} {issue.text}" if place != DEFAULT else f"{subject} {issue.text}"


def subject_of(path: KeyPath, tree: Mapping[str, object]) -> str:
    """Return a key's name for people: server.port, api_key of target "main"."""
    if len(path) > 1 and path[0] in LISTED and isinstance(path[1], int):
        owner = f"{LISTED[str(path[0])]} {_name(tree.get(str(path[0])), path[1])}"
        return f"{dotted(path[2:])} of {owner}" if path[2:] else owner
    return dotted(path)


def dotted(path: KeyPath) -> str:
    """The path as it is written, with a number for the place in a list."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def _name(listed: object, index: int) -> str:
    """The table's own name, else its number, counted from 1."""
    tables = cast("list[object]", listed) if isinstance(listed, list) else []
    table = tables[index] if index < len(tables) else None
    name = cast("dict[str, object]", table).get("name") if isinstance(table, dict) else None
    return f'"{name}"' if isinstance(name, str) and name else f"number {index + 1}"
