"""Makes profiles: here alone settings, a workspace and an approval become what a command may reach.

Finds the Unix sockets that programs outside the sandbox listen on. A socket in the file system answers from
any network namespace, so a command could have such a program act for it. Sockets of other sandboxed commands
are in network namespaces of their own and stay reachable.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from holdfast.policy.autorun_files import GIT_PROTECTED
from holdfast.policy.host_rules import EVERY_HOST, host_rules
from holdfast.policy.lifts import why_not_given
from holdfast.sandbox.first_shell import usual_limits
from holdfast.sandbox.network_proxy import read_inside
from holdfast.sandbox.profile import NetworkAccess, ProcessLimits, Profile
from holdfast.sandbox.system_files import SYSTEM_FOLDERS, caches, is_below, is_in, outermost, toolchains
from holdfast.sandbox.workspace_scan import WorkspaceScan, beginning_of
from holdfast.values import Lift

_SOCKETS = "/proc/net/unix"
_FIELDS_BEFORE_PATH = 7


def served_outside(paths: Iterable[str]) -> set[str]:
    """The sockets that a program in our own network namespace has bound, by their names. Blocks.

    A program can bind a relative path, so only the last part of each is compared.
    """
    wanted = set(paths)
    if not wanted:
        return wanted
    try:
        with open(_SOCKETS, encoding="utf-8", errors="surrogateescape") as table:  # noqa: PTH123 - a text
            rows = [line.rstrip("\n").split(maxsplit=_FIELDS_BEFORE_PATH) for line in table]
    except OSError:
        return wanted  # any of them may be
    names = {row[-1].rpartition("/")[2] for row in rows if len(row) > _FIELDS_BEFORE_PATH}
    return {path for path in wanted if path.rpartition("/")[2] in names}


_HTTPS = 443
_LINK_BYTES_MAX = 4_096
_LINKS_MAX = 40


class SandboxOptions(Struct, frozen=True, kw_only=True):
    """The settings of the sandbox and what they depend on; all paths are absolute.

    `own` are Holdfast's own folders and files, which no command ever reaches.
    """

    home: Path
    environment: Mapping[str, str]
    network: NetworkAccess = "off"
    hosts: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    caches: bool = False
    own: tuple[str, ...] = ()
    limits: ProcessLimits = field(default_factory=usual_limits)


class Profiles:
    """Makes the profile of each command. Every method looks at files, so it blocks."""

    def __init__(self, options: SandboxOptions, *, scan: WorkspaceScan | None = None) -> None:
        self._options = options
        self._scan = scan or WorkspaceScan()
        self._home = os.path.realpath(options.home)
        self._toolchains = toolchains(self._home, options.environment)
        self._caches = caches(self._home) if options.caches else ()
        self._own = _real(options.own)

    def profile(self, workspace: Path, *, cwd: str = "", lift: Lift | None = None) -> Profile:
        """Everything that a command in this folder can reach, with what an approval adds."""
        options, lift = self._options, lift or Lift()
        root = os.path.realpath(workspace)
        unprotected = _real((*options.write, *lift.write))
        write = (*unprotected, *_linked_git(root))
        named = _real((*options.read, *lift.read))
        found = [self._scan.look(path) for path in (root, *write)]
        masked = {path for one in found for path in one.secret if not is_in(path, named)}
        sockets = {path for one in found for path in one.sockets} - {*named, *unprotected}
        masked |= served_outside(sockets)
        masked |= {path for path in self._own if is_in(path, (root, *write, *named, *self._toolchains))}
        protected = {path for one in found for path in one.protected}
        protected |= {path for folder in _linked_git(root) for path in _of_git(folder)}
        # What is in a masked folder isn't there to be changed, and nothing can be mounted in it.
        protected = {path for path in protected if not is_in(path, masked)}
        network = self._network(lift)
        shown = (*SYSTEM_FOLDERS, root, *write, *named, *self._toolchains, *self._caches)
        return Profile(
            workspace=root,
            cwd=os.path.realpath(cwd) if cwd else root,
            home=self._home,
            write=write,
            read=(*self._toolchains, *named, *(read_inside() if network == "hosts" else ())),
            links=tuple(dict.fromkeys(_links((*options.write, *options.read), shown))),
            caches=self._caches,
            protected=tuple(sorted(outermost(protected - {*unprotected}))),
            masked=tuple(sorted(outermost(masked))),
            approved=tuple(map(os.path.realpath, (*options.write, *lift.write))),
            network=network,
            hosts=tuple(sorted({*options.hosts, *lift.hosts})),
            limits=options.limits,
            known=all(one.known for one in found),
            unmasked=sum(one.unmasked for one in found),
            searched=all(one.searched for one in found),
        )

    def is_own(self, path: str) -> bool:
        """Whether a path belongs to Holdfast, so that no command ever reaches it."""
        return is_in(path, self._own)

    def leaves_out(self, hosts: Iterable[str]) -> tuple[str, ...]:
        """Which of these hosts a command can't reach by the settings alone; each is a name, or name:port.

        Where the settings list hosts, EVERY_HOST means those.
        """
        if self._options.network == "on":
            return ()
        if self._options.network == "hosts":
            hosts = [host for host in hosts if host != EVERY_HOST]
        rules = host_rules(self._options.hosts)
        named = {host: host.partition(":") for host in hosts}
        return tuple(
            host for host, (name, _, port) in named.items() if not rules.allows(name, int(port or _HTTPS))
        )

    def _network(self, lift: Lift) -> NetworkAccess:
        if lift.network or self._options.network == "on":
            return "on"
        return "hosts" if lift.hosts or self._options.network == "hosts" else "off"


def _real(paths: Iterable[str]) -> tuple[str, ...]:
    """The paths that exist and can be given to a command, without links."""
    found = dict.fromkeys(map(os.path.realpath, paths))
    return tuple(path for path in found if os.path.lexists(path) and not why_not_given(path))


def _links(paths: Iterable[str], shown: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The links by which paths are named, and where each leads, except in folders that are shown anyway."""
    for path in paths:
        if not _real([path]):
            continue
        ahead, here, left = path.split("/"), "", _LINKS_MAX
        while ahead and left:
            name = ahead.pop(0)
            at = f"{here}/{name}" if name not in {"", ".", ".."} else here
            here = at if name != ".." else os.path.dirname(here)  # noqa: PTH120 - a text, not a path
            if not os.path.islink(here) or is_in(here, shown):  # noqa: PTH114
                continue
            leads_to = os.path.normpath(os.path.join(os.path.dirname(here), os.readlink(here)))  # noqa: PTH115, PTH118, PTH120
            yield here, leads_to
            ahead, here, left = [*leads_to.split("/"), *ahead], "", left - 1


def _linked_git(workspace: str) -> tuple[str, ...]:
    """The git folder of a linked working tree, which is outside it.

    A `.git` file can name any folder, so it counts only if that folder names this working tree in turn.
    """
    folder = _first_line(f"{workspace}/.git").removeprefix("gitdir: ")
    if not folder.startswith("/") or _first_line(f"{folder}/gitdir") != f"{workspace}/.git":
        return ()
    common = os.path.realpath(os.path.join(folder, _first_line(f"{folder}/commondir") or "."))  # noqa: PTH118
    is_repository = os.path.isdir(f"{common}/objects") and is_below(os.path.realpath(folder), common)  # noqa: PTH112
    return (common,) if is_repository else ()


def _of_git(folder: str) -> tuple[str, ...]:
    return _real(f"{folder}/{name}" for name in GIT_PROTECTED)


def _first_line(path: str) -> str:
    """The first line of a small regular file; empty for anything else."""
    data = beginning_of(path, bytes_max=_LINK_BYTES_MAX)
    return data.decode("utf-8", "surrogateescape").partition("\n")[0]
