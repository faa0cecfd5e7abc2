"""What a command asks to have lifted of the sandbox, and what the model is told when it met its limits."""

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.policy.autorun_files import is_protected
from holdfast.policy.host_rules import BadHost, host_rules, plain_name
from holdfast.policy.lifts import why_not_given
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
_EVERY_HOST = "*"
_COMMAND_CHARS_MAX = 4_000  # a longer command is a program, and what it connects to is not to be seen in it
_FETCH = frozenset(("curl", "wget", "aria2c", "http", "https"))
_GIT_FETCHES = frozenset(("clone", "fetch", "pull", "ls-remote", "submodule"))
_INSTALLERS = frozenset(
    ("pip", "pip3", "uv", "npm", "pnpm", "yarn", "bun", "cargo", "gem", "bundle", "poetry", "go", "mvn")
)
_INSTALLS = frozenset(("install", "i", "ci", "add", "sync", "get", "fetch", "update", "download", "upgrade"))
_URL = re.compile(r"(?:git\+)?https?://(?:[^@/\s]*@)?([A-Za-z0-9][A-Za-z0-9.-]*)(?::(\d{1,5}))?(?:[/?#]|$)")
_LOOPBACK = re.compile(r"localhost|.*\.localhost|127\..*|0\.0\.0\.0")
_ENDS_A_COMMAND = frozenset(";&|()")

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


def lift_for(needs: ShellNeeds, workspace: Path, confiner: Confiner | None, *, command: str = "") -> Lift:
    """What is lifted of this sandbox if the person agrees; raises BadArguments. It resolves links: blocks.

    A command that names the hosts it connects to needs them, whether or not the agent said so.
    """
    if confiner is None or confiner.sandbox.confines is None:
        return Lift()
    if needs.unsandboxed:
        return Lift(everything=True)
    every = _EVERY_HOST in needs.network
    named = needs.network or confiner.profiles.leaves_out(named_hosts(command))
    hosts = () if every else _hosts(named)
    # Only a namespace of its own leads a command's connections through our proxy.
    single = confiner.sandbox.backend == "bubblewrap"
    place = Workspace(workspace)
    write = {_writable(place.resolved(path), workspace) for path in needs.write}
    read = {place.resolved(path) for path in needs.read}
    for path in (*write, *read):
        if why := why_not_given(path):
            raise BadArguments(f"needs: {why}")
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


def named_hosts(command: str) -> tuple[str, ...]:
    """The hosts that a command plainly connects to: it gives their addresses to a program for that."""
    found: dict[str, None] = {}
    for words in _simple_commands(command):
        if not (_is_fetch(words) or _is_install(words)):
            continue
        for word in words[1:]:
            match = _URL.match(word.rpartition("=")[2] if word.startswith("-") else word)
            if match and not _LOOPBACK.fullmatch(match[1]):
                port = match[2] if match[2] not in {None, "80", "443"} else ""
                found[f"{plain_name(match[1])}:{port}".rstrip(":")] = None
    return tuple(found)[:ITEMS_MAX]


def may_install(command: str) -> bool:
    """Whether a command asks a package manager or git for something from elsewhere, without saying where."""
    return any(
        _is_install(words) or (words[0] == "git" and _is_fetch(words)) for words in _simple_commands(command)
    )


def _simple_commands(command: str) -> Iterator[list[str]]:
    """The words of each command in a command line, without assignments; nothing if it can't be read."""
    if len(command) > _COMMAND_CHARS_MAX:
        return
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    try:
        for word in (*lexer, ";"):
            if _ENDS_A_COMMAND.isdisjoint(word) or not _ENDS_A_COMMAND.issuperset(word):
                words += [word] if words or not re.match(r"\w+=", word) else []
                continue
            if words:
                yield words
            words = []
    except ValueError:
        return  # an open quote


def _is_fetch(words: list[str]) -> bool:
    program = words[0].rpartition("/")[2]
    return program in _FETCH or (program == "git" and not _GIT_FETCHES.isdisjoint(words[1:4]))


def _is_install(words: list[str]) -> bool:
    if words[0].startswith("python") and words[1:3] == ["-m", "pip"]:
        words = words[2:]
    return words[0].rpartition("/")[2] in _INSTALLERS and not _INSTALLS.isdisjoint(words[1:4])


def hint_for(output: str) -> str:
    """How to ask for more, if a failed command's output looks as if the sandbox was in its way.

    If the output names the host or the path, the hint says exactly what to ask for.
    """
    if not _LIMITS_MET.search(output):
        return ""
    needs = {"network": _hosts_missed(output), "write": _paths_missed(output)}
    if not any(needs.values()):
        return HINT
    named = {name: items for name, items in needs.items() if items}
    missed = ", ".join(item for items in named.values() for item in items)
    return f"[This ran in the sandbox, which may have kept it from {missed}.]\n{how_to_ask(named)}"


def how_to_ask(needs: Mapping[str, Sequence[str]]) -> str:
    """How the agent asks a person for exactly this."""
    return (
        "[If the command needs this, and running it again does no harm, call shell again with needs "
        f"{json.dumps(needs)}: a person is asked once.]"
    )


def _hosts_missed(output: str) -> list[str]:
    """The hosts that programs say they couldn't find or reach."""
    found: dict[str, None] = {}
    for match in islice(_NO_HOST.finditer(output), _MISSED_MAX):
        name = plain_name(match[match.lastgroup or 0].rstrip("."))
        if not _LOOPBACK.fullmatch(name):
            found[name] = None
    return list(found)


def _paths_missed(output: str) -> list[str]:
    """The paths that programs say they couldn't write."""
    matches = islice(_NO_WRITE.finditer(output), _MISSED_MAX)
    found = dict.fromkeys(match[match.lastgroup or 0] for match in matches)
    return [path for path in found if not why_not_given(path)]
