"""Makes profiles: here alone settings, a workspace and an approval become what a command may reach."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.policy.autorun_files import GIT_PROTECTED
from holdfast.policy.host_rules import host_rules
from holdfast.sandbox.first_shell import usual_limits
from holdfast.sandbox.network_proxy import read_inside
from holdfast.sandbox.profile import NetworkAccess, ProcessLimits, Profile
from holdfast.sandbox.system_files import caches, is_below, outermost, toolchains
from holdfast.sandbox.workspace_scan import WorkspaceScan, beginning_of
from holdfast.values import Lift

_HTTPS = 443
_LINK_BYTES_MAX = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOptions:
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
        """What a command in this folder of the workspace may reach, with what an approval adds."""
        options, lift = self._options, lift or Lift()
        root = os.path.realpath(workspace)
        write = (*_real((*options.write, *lift.write)), *_linked_git(root))
        named = _real((*options.read, *lift.read))
        found = [self._scan.look(path) for path in (root, *write)]
        masked = {path for one in found for path in one.secret if not _is_in(path, named)}
        masked |= {path for path in self._own if _is_in(path, (root, *write, *named, *self._toolchains))}
        protected = {path for one in found for path in one.protected}
        protected |= {path for folder in _linked_git(root) for path in _of_git(folder)}
        # What is in a masked folder isn't there to be changed, and nothing can be mounted in it.
        protected = {path for path in protected if not _is_in(path, masked)}
        unprotected = _real((*options.write, *lift.write))
        network = self._network(lift)
        return Profile(
            workspace=root,
            cwd=os.path.realpath(cwd) if cwd else root,
            home=self._home,
            write=write,
            read=(*self._toolchains, *named, *(read_inside() if network == "hosts" else ())),
            caches=self._caches,
            protected=tuple(sorted(outermost(protected - {*unprotected}))),
            masked=tuple(sorted(outermost(masked))),
            approved=tuple(map(os.path.realpath, (*options.write, *lift.write))),
            network=network,
            hosts=tuple(sorted({*options.hosts, *lift.hosts})),
            limits=options.limits,
            known=all(one.known for one in found),
        )

    def leaves_out(self, hosts: Iterable[str]) -> tuple[str, ...]:
        """Which of these hosts a command can't reach by the settings alone; each is a name, or name:port."""
        if self._options.network == "on":
            return ()
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
    """The paths that exist, without links."""
    return tuple(dict.fromkeys(real for path in paths if os.path.lexists(real := os.path.realpath(path))))


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(is_below(path, folder) for folder in folders)


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
