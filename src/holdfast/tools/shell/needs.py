"""Requests of commands for access beyond the sandbox, and hints for the model about blocked access."""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from holdfast.interfaces.workspace_paths import is_within
from holdfast.policy.autorun_files import is_protected
from holdfast.policy.host_rules import EVERY_HOST, BadHost, host_rules, plain_name
from holdfast.policy.lifts import why_not_given
from holdfast.tools.arguments import BadArguments
from holdfast.tools.files.workspace import Workspace
from holdfast.tools.shell.connections import is_loopback
from holdfast.values import Lift

if TYPE_CHECKING:
    from holdfast.sandbox.confinement import Confiner

ITEMS_MAX = 20
SANDBOXED = (
    " In its sandbox it can change the workspace and read the system, but not secret files, the home folder, "
    "git hooks and configuration, or files that other programs run later."
)
HINT = (
    "[This ran in the sandbox. If it failed for lack of access, call shell again and list it in `needs`: "
    '{"network": ["host"]}, {"write": ["path"]}, {"read": ["path"]} or {"unsandboxed": true}, with a '
    "reason. A person has to approve.]"
)
_LIMITS_MET = re.compile(
    r"read-only file system|permission denied|operation not permitted|device or resource busy|"
    r"network is unreachable|could not resolve|unable to resolve|name resolution|name or service not known|"
    r"ENOTFOUND|EAI_AGAIN|EROFS|EACCES|EPERM|ECONNREFUSED|connection refused|proxy|403 forbidden|getaddrinfo",
    re.IGNORECASE,
)
_NAME = r"[A-Za-z0-9][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)+"
_NO_HOST = re.compile(
    rf"could not resolve host(?:name)?:? (?P<curl>{_NAME})"
    rf"|unable to resolve host address \W?(?P<wget>{_NAME})"
    rf"|(?:ENOTFOUND|EAI_AGAIN) (?P<node>{_NAME})|host='(?P<requests>{_NAME})', port=\d+"
    rf"|dial tcp: lookup (?P<go>{_NAME})|failed to (?:fetch|connect to) `?https?://(?P<other>{_NAME})",
    re.IGNORECASE,
)
_NO_WRITE = re.compile(
    r"EROFS: [\w -]+, \w+ '(?P<node>[^'\n]+)'|\[Errno 30\] [\w -]+: '(?P<python>[^'\n]+)'"
    r"|(?P<named>[\w./~+@-]+)\W?: read-only file system",
    re.IGNORECASE,
)
_MISSED_MAX = 5
Items = Annotated[tuple[str, ...], Meta(max_length=ITEMS_MAX)]


class ShellNeeds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The command's needs beyond the sandbox."""

    network: Annotated[Items, Meta(description="Hosts; *: all.")] = ()
    write: Annotated[Items, Meta(description="Paths to change.")] = ()
    read: Annotated[Items, Meta(description="Paths to read.")] = ()
    unsandboxed: Annotated[bool, Meta(description="Last resort.")] = False
    reason: Annotated[str, Meta(max_length=300)] = ""


def lift_for(
    needs: ShellNeeds,
    workspace: Path,
    confiner: "Confiner | None",
    *,
    connects_to: Callable[[], Iterable[str]] = tuple,
) -> Lift:
    """Return the access to lift if the person approves; raises BadArguments. Resolves links, so it blocks.

    A command needs the hosts that it's known to connect to, even if the agent didn't request them.
    """
    if confiner is None or confiner.sandbox.confines is None:
        return Lift()
    if needs.unsandboxed:
        return Lift(everything=True)
    named = needs.network or confiner.profiles.leaves_out(connects_to())
    every = EVERY_HOST in named
    hosts = () if every else _hosts(named)
    # Only a separate namespace routes a command's connections through our proxy.
    single = confiner.sandbox.backend == "bubblewrap"
    place = Workspace(workspace)
    write = {_writable(place.resolved(path), workspace) for path in needs.write}
    read = {place.resolved(path) for path in needs.read}
    for path in (*write, *read):
        if why := why_not_given(path):
            raise BadArguments(f"needs: {why}")
        if confiner.profiles.is_own(path):
            raise BadArguments(f"needs: {path} belongs to Holdfast, so commands can't access it")
    return Lift(
        hosts=hosts if single else (),
        network=every or (bool(hosts) and not single),
        write=tuple(sorted(write)),
        read=tuple(sorted(read)),
    )


def _writable(path: str, workspace: Path) -> str:
    """The path, or the folder that must be writable for it to be made."""
    root, place = os.path.realpath(workspace), path
    while not os.path.lexists(place):
        place = os.path.dirname(place)  # noqa: PTH120 - a text, not a path
    inside = is_within(place, root) and not is_protected(os.path.relpath(place, root))
    return path if inside else place


def _hosts(named: tuple[str, ...]) -> tuple[str, ...]:
    hosts = tuple(sorted({plain_name(host.strip()) for host in named}))
    try:
        host_rules(hosts)
    except BadHost as error:
        raise BadArguments(f"needs.network: {error}") from error
    return hosts


def limits_met(output: str) -> tuple[str, str]:
    """Describe what the sandbox may have blocked, and how the agent can request it; each can be empty.

    If the output names the host or the path, both name it exactly.
    """
    if not _LIMITS_MET.search(output):
        return "", ""
    needs = {"network": _hosts_missed(output), "write": _paths_missed(output)}
    named = {name: items for name, items in needs.items() if items}
    if not named:
        return "", HINT
    missed = ", ".join(item for items in named.values() for item in items)
    return f"[This ran in the sandbox, which may have blocked {missed}.]", how_to_ask(named)


def how_to_ask(needs: Mapping[str, Sequence[str]]) -> str:
    """How the agent asks a person for exactly this."""
    return (
        "[If the command needs this and is safe to run again, call shell again with needs "
        f"{json.dumps(needs)}. A person has to approve once.]"
    )


def _hosts_missed(output: str) -> list[str]:
    """The hosts that programs say they couldn't find or reach."""
    found: dict[str, None] = {}
    for match in islice(_NO_HOST.finditer(output), _MISSED_MAX):
        name = plain_name(match[match.lastgroup or 0].rstrip("."))
        if not is_loopback(name):
            found[name] = None
    return list(found)


def _paths_missed(output: str) -> list[str]:
    """The paths that programs say they couldn't write."""
    matches = islice(_NO_WRITE.finditer(output), _MISSED_MAX)
    found = dict.fromkeys(match[match.lastgroup or 0] for match in matches)
    return [path for path in found if not why_not_given(path)]
