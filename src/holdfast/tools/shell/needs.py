"""What a command asks to have lifted of the sandbox, and what the model is told when it met its limits."""

import os
import re
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.policy.autorun_files import is_protected
from holdfast.policy.host_rules import BadHost, host_rules, plain_name
from holdfast.policy.path_facts import is_within
from holdfast.sandbox.confinement import Confiner
from holdfast.tools.arguments import BadArguments
from holdfast.tools.files.workspace import Workspace
from holdfast.values import Lift

ITEMS_MAX = 20
SANDBOXED = (
    " Commands run in a sandbox: they can change the workspace, read the system, and reach no network beyond "
    "what is configured. Secret files, the home folder, git's hooks and configuration, and files that other "
    "programs run later are out of reach. If a command needs more, say what in `needs`: a person is asked."
)
HINT = (
    "[This ran in the sandbox. If it failed for lack of access, call shell again and say in `needs` what it "
    'needs: {"network": ["host"]}, {"write": ["path"]}, {"read": ["path"]} or {"unsandboxed": true}, with a '
    "reason. A person is asked.]"
)
_LIMITS_MET = re.compile(
    r"read-only file system|permission denied|operation not permitted|device or resource busy|"
    r"network is unreachable|could not resolve|name resolution|name or service not known|ENOTFOUND|EAI_AGAIN|"
    r"EROFS|EACCES|EPERM|ECONNREFUSED|connection refused|proxy|403 forbidden|getaddrinfo",
    re.IGNORECASE,
)
_EVERY_HOST = "*"

Items = Annotated[tuple[str, ...], Meta(max_length=ITEMS_MAX)]


class ShellNeeds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the command needs beyond the sandbox."""

    network: Annotated[
        Items, Meta(description='Hosts that it connects to, such as "pypi.example"; ["*"] is every host.')
    ] = ()
    write: Annotated[
        Items, Meta(description="Paths outside the workspace, or protected ones in it, that it changes.")
    ] = ()
    read: Annotated[
        Items, Meta(description="Paths outside the workspace, or secret ones in it, that it reads.")
    ] = ()
    unsandboxed: Annotated[bool, Meta(description="Run it without any sandbox; the last resort.")] = False
    reason: Annotated[str, Meta(max_length=300, description="Why, for the person who is asked.")] = ""


def lift_for(needs: ShellNeeds, workspace: Path, confiner: Confiner | None) -> Lift:
    """What is lifted of this sandbox if the person agrees; raises BadArguments. It resolves links: blocks."""
    if confiner is None or confiner.sandbox.confines is None:
        return Lift()
    if needs.unsandboxed:
        return Lift(everything=True)
    every = _EVERY_HOST in needs.network
    hosts = () if every else _hosts(needs.network)
    # Only a namespace of its own leads a command's connections through our proxy.
    single = confiner.sandbox.backend == "bubblewrap"
    place = Workspace(workspace)
    return Lift(
        hosts=hosts if single else (),
        network=every or (bool(hosts) and not single),
        write=tuple(sorted({_writable(place.resolved(path), workspace) for path in needs.write})),
        read=tuple(sorted({place.resolved(path) for path in needs.read})),
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


def hint_for(output: str) -> str:
    """How to ask for more, if a failed command's output looks as if the sandbox was in its way."""
    return HINT if _LIMITS_MET.search(output) else ""
