"""The built-in tools by name, their kinds for the approval policy, and names for the tools of MCP servers.

A new built-in tool has one line here. The policy asks about every call of a tool that isn't listed, such as
one of an MCP server.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

MCP_PREFIX = "mcp__"  # `mcp__SERVER__TOOL`, with a label for each server
NAME_CHARS_MAX = 64  # what every model provider accepts
LABEL_CHARS_MAX = 20
# The lines of a patch that name a file.
PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE)
_NUMBERS = range(2, 10_000)

SHELL = "shell"
SHELL_JOBS = "shell_jobs"
SHELL_KILL = "shell_kill"
READ_FILE = "read_file"
WRITE_FILE = "write_file"
EDIT_FILE = "edit_file"
APPLY_PATCH = "apply_patch"
LIST_FILES = "list_files"
SEARCH_FILES = "search_files"
SEND_FILE = "send_file"
FETCH_URL = "fetch_url"
ASK_USER = "ask_user"
UPDATE_PLAN = "update_plan"
FINISH_GOAL = "finish_goal"
SEARCH_SESSIONS = "search_sessions"
READ_RESULT = "read_result"
DELEGATE = "delegate"
CHILD_STATUS = "child_status"
CHILD_WAIT = "child_wait"
CHILD_TAIL = "child_tail"
CHILD_STEER = "child_steer"
CHILD_STOP = "child_stop"
CHILD_VERBS = (CHILD_STATUS, CHILD_WAIT, CHILD_TAIL, CHILD_STEER, CHILD_STOP)
CHILD_TOOLS = (DELEGATE, *CHILD_VERBS)  # the agent loop carries them out
REMEMBER = "remember"
READ_NOTES = "read_notes"
SKILL = "skill"
WEB_SEARCH = "web_search"
PROPOSE_SKILL = "propose_skill"
BROWSER_OPEN = "browser_open"
BROWSER_LOOK = "browser_look"
BROWSER_ACT = "browser_act"
BROWSER_SUBMIT = "browser_submit"
SCHEDULE = "schedule"
# These are in no policy: the first only describes tools, and a call of the second is judged as the inner one.
FIND_TOOLS = "find_tools"
CALL_TOOL = "call_tool"

ToolKind: TypeAlias = Literal[
    "command",  # runs a command line, which is parsed and judged
    "read",  # reads the paths that it names
    "read_tree",  # reads everything below the paths that it names
    "write",  # writes the paths that it names
    "fetch",  # sends a request to the host that it names
    "act",  # acts on what a host's page shows, which reaches only hosts that were approved
    "submit",  # sends a form to the host that it names
    "later",  # makes Holdfast do something later, by itself
    "free",  # reaches only the user, or what the session started itself: processes and sub-agents
]
# The tools that work with the store, depend on the configuration or belong to a feature. They exist only on a
# server.
WITH_STORE: Mapping[str, ToolKind] = MappingProxyType(
    {
        APPLY_PATCH: "write",
        SEARCH_SESSIONS: "free",
        SCHEDULE: "later",
        REMEMBER: "free",
        READ_NOTES: "free",
        SKILL: "free",
        PROPOSE_SKILL: "free",
        WEB_SEARCH: "fetch",
        BROWSER_OPEN: "fetch",
        BROWSER_LOOK: "free",
        BROWSER_ACT: "act",
        BROWSER_SUBMIT: "submit",
        UPDATE_PLAN: "free",
        FINISH_GOAL: "free",
        READ_RESULT: "free",
        DELEGATE: "free",  # whatever the sub-agent does is judged as if its parent did it
        CHILD_STATUS: "free",
        CHILD_WAIT: "free",
        CHILD_TAIL: "free",
        CHILD_STEER: "free",
        CHILD_STOP: "free",
    }
)
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
        SEND_FILE: "read",  # to the person who talks with the agent
        FETCH_URL: "fetch",
        ASK_USER: "free",
        **WITH_STORE,
    }
)


def tool_kind(tool: str) -> ToolKind | None:
    """Return the kind of a built-in tool, or None if it isn't built in."""
    return BUILT_IN.get(tool)


def mcp_labels(names: Iterable[str]) -> dict[str, str]:
    """Return a label for each server, without double underscores.

    So the first pair of underscores after the prefix of a tool's name ends the label: whatever a server calls
    its tools, none can have the name of another server's tool.
    """
    return _numbered({name: _label(name) for name in names}, chars_max=LABEL_CHARS_MAX)


def mcp_tool_names(label: str, tools: Iterable[str]) -> dict[str, str]:
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
