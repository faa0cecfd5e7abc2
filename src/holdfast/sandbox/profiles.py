"""Makes profiles: the one place where settings, a workspace and an approval become what a command may reach."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.sandbox.profile import NetworkAccess, ProcessLimits, Profile
from holdfast.values import Lift


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOptions:
    """The settings of the sandbox and what they depend on; all paths are absolute.

    `own` are Holdfast's own folders and files, which no command ever reaches.
    """

    home: Path
    environment: Mapping[str, str]
    network: NetworkAccess = "off"
    hosts: tuple[str, ...] = ()
    proxy_socket: str = ""  # set if the proxy runs; an allow list without it is no network
    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    caches: bool = False
    own: tuple[str, ...] = ()
    limits: ProcessLimits = field(default_factory=ProcessLimits)


class Profiles:
    """Makes the profile of each command."""

    def __init__(self, options: SandboxOptions) -> None:
        self._options = options

    def profile(self, workspace: Path, *, cwd: str = "", lift: Lift | None = None) -> Profile:
        """What a command in this folder may reach, and what an approval adds. Looks at files, so it blocks."""
        lift = lift or Lift()
        options = self._options
        root = os.path.realpath(workspace)
        return Profile(
            workspace=root,
            cwd=os.path.realpath(cwd) if cwd else root,
            home=os.path.realpath(options.home),
            write=(*options.write, *lift.write),
            read=(*options.read, *lift.read),
            network="on" if lift.network else options.network,
            hosts=(*options.hosts, *lift.hosts),
            proxy_socket=options.proxy_socket,
            limits=options.limits,
        )
