"""The built-in tools by name, and what the approval policy takes a call of each to do.

A new built-in tool has one line here. The policy asks about every call of a tool that isn't listed, such as
one of an MCP server.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

SHELL = "shell"
SHELL_JOBS = "shell_jobs"
SHELL_KILL = "shell_kill"
READ_FILE = "read_file"
WRITE_FILE = "write_file"
EDIT_FILE = "edit_file"
LIST_FILES = "list_files"
SEARCH_FILES = "search_files"
FETCH_URL = "fetch_url"
ASK_USER = "ask_user"

ToolKind: TypeAlias = Literal[
    "command",  # runs a command line, which is parsed and judged
    "read",  # reads the paths that it names
    "read_tree",  # reads everything below the paths that it names
    "write",  # writes the paths that it names
    "fetch",  # sends a request to the host that it names
    "free",  # reaches only the user, or processes that the session started itself
]
BUILT_IN: Mapping[str, ToolKind] = MappingProxyType(
    {
        SHELL: "command",
        SHELL_JOBS: "free",
        SHELL_KILL: "free",
        READ_FILE: "read",
        WRITE_FILE: "write",
        EDIT_FILE: "write",
        LIST_FILES: "read_tree",
        SEARCH_FILES: "read_tree",
        FETCH_URL: "fetch",
        ASK_USER: "free",
    }
)


def tool_kind(tool: str) -> ToolKind | None:
    """What a call of the tool does, or None if the tool isn't built in."""
    return BUILT_IN.get(tool)
