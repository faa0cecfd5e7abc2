"""The names of the tools of MCP servers: `mcp__SERVER__TOOL`, with a label for each server."""

import re
from collections.abc import Iterable, Mapping

MCP_PREFIX = "mcp__"
NAME_CHARS_MAX = 64  # what every model provider accepts
LABEL_CHARS_MAX = 20
_NUMBERS = range(2, 10_000)


def labels(names: Iterable[str]) -> dict[str, str]:
    """Return a label for each server, without double underscores.

    So the first pair of underscores after the prefix of a tool's name ends the label: whatever a server calls
    its tools, none can have the name of another server's tool.
    """
    return _numbered({name: _label(name) for name in names}, chars_max=LABEL_CHARS_MAX)


def tool_names(label: str, tools: Iterable[str]) -> dict[str, str]:
    """Return a server's tools in order of name: the names for the model, by the server's own.

    They depend on the set of tools alone, not on the order in which the server lists them.
    """
    front = f"{MCP_PREFIX}{label}__"
    chars_max = NAME_CHARS_MAX - len(front)
    names = {tool: _plain_name(tool)[:chars_max] or "tool" for tool in tools}
    return {tool: front + name for tool, name in _numbered(names, chars_max=chars_max).items()}


def _numbered(names: Mapping[str, str], *, chars_max: int) -> dict[str, str]:
    """Number duplicate names. Unchanged ones keep theirs, and the others are numbered in their own order."""
    given: dict[str, str] = {}
    taken: set[str] = set()
    for own in sorted(names, key=lambda own: (own != names[own], own)):
        name = names[own]
        if name in taken:
            tails = (f"_{number}" for number in _NUMBERS)
            name = next(
                made
                for tail in tails
                if (made := f"{name[: chars_max - len(tail)].rstrip('_')}{tail}") not in taken
            )
        taken.add(name)
        given[own] = name
    return dict(sorted(given.items(), key=lambda pair: pair[1]))


def _label(name: str) -> str:
    text = re.sub(r"_+", "_", _plain_name(name)).strip("_")[:LABEL_CHARS_MAX].strip("_")
    return text or "server"


def _plain_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name[: 4 * NAME_CHARS_MAX])
