"""The access of one command: a value, with a digest for the log."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

MOUNTS_MAX = 256  # of each kind: thousands would take seconds
SandboxMode: TypeAlias = Literal["auto", "require", "off"]
# "hosts" is an allow list: only the listed hosts, through Holdfast's proxy.
NetworkAccess: TypeAlias = Literal["off", "hosts", "on"]


class ProcessLimits(Struct, frozen=True, kw_only=True):
    """Resource limits of one command; 0 means no limit."""

    memory_bytes: int = 0
    processes: int = 0
    file_bytes: int = 0


class Profile(Struct, frozen=True, kw_only=True):
    """The access of one command; every path is absolute and without links.

    The system is readable, the workspace writable, the home folder empty, and nothing else is there.
    `protected` and `masked` exist when the profile is made, and win over `write` and `read`.
    With "whole", everything outside the home folder is readable, and there need be no workspace.
    """

    workspace: str
    cwd: str
    home: str
    base: Literal["small", "whole"] = "small"
    kept: tuple[tuple[str, str], ...] = ()  # folders of its own that last, each with the path it has inside
    write: tuple[str, ...] = ()  # writable beside the workspace
    read: tuple[str, ...] = ()  # readable beside the system
    links: tuple[tuple[str, str], ...] = ()  # links by which settings name these, and where each leads
    caches: tuple[str, ...] = ()  # writable folders of package managers in the home folder
    protected: tuple[str, ...] = ()  # read-only though the tree around them is writable
    masked: tuple[str, ...] = ()  # there, but unreadable
    approved: tuple[str, ...] = ()  # protected paths that it may change, also ones that don't exist yet
    network: NetworkAccess = "off"
    hosts: tuple[str, ...] = ()  # with "hosts": which
    limits: ProcessLimits = field(default_factory=ProcessLimits)
    known: bool = True  # False: not every secret and protected file of the workspace is in it
    unmasked: int = 0  # secret files and sockets beyond the most that can be masked
    searched: bool = True  # False: the workspace is too large to find every secret file
    # With "off": a confined process whose network the command shares; 0 means a network of its own.
    beside: int = 0

    @property
    def pinned(self) -> tuple[str, ...]:
        """The folders between a writable tree and the mounts in it, those above masks first.

        They're mounted onto themselves, because a mount point can't be renamed or replaced by a link. So no
        command can move a secret out from under the mask that the next command gets.
        """
        return tuple(dict.fromkeys((*self._above(self.masked), *self._above(self._mounted))))

    @property
    def shortfall(self) -> str:
        """Return the parts that no sandbox can enforce, as sentences for people; empty if there are none."""
        lacks: list[str] = []
        if not self.searched:
            lacks.append(
                "There are too many files to search for secret ones: it could read any that weren't found."
            )
        if self.unmasked:
            lacks.append(
                f"{self.unmasked:,} secret files or sockets can't be hidden from it, because the sandbox "
                f"hides at most {MOUNTS_MAX} of each: it could read them."
            )
        if len(self._above(self.masked)) > MOUNTS_MAX:
            lacks.append(
                "Secret files are in too many folders for the sandbox to hold in place: it could move them "
                "to where the next command reads them."
            )
        return " ".join(lacks)

    @property
    def _writable(self) -> set[str]:
        return {path for path in (self.workspace, *self.write, *self.caches) if path}

    @property
    def _mounted(self) -> set[str]:
        inside = {inside for _, inside in self.kept}
        return {*self._writable, *inside, self.home, *self.read, *self.protected, *self.masked}

    def _above(self, paths: Iterable[str]) -> list[str]:
        """The folders between a writable tree and these mounts in it, the shallow first."""
        writable, mounted = self._writable, self._mounted
        found: set[str] = set()
        for path in paths:
            above = path.rpartition("/")[0] or "/"
            between: list[str] = []
            while above != "/" and above not in mounted:
                between.append(above)
                above = above.rpartition("/")[0] or "/"
            if above in writable:
                found.update(between)
        return sorted(found, key=lambda path: (path.count("/"), path))

    @property
    def digest(self) -> str:
        """Identifies the profile in the log; which process it runs beside is found only when it starts."""
        return blake2b(msgspec.json.encode(replace(self, beside=0)), digest_size=16).hexdigest()


class ServerAccess(Struct, frozen=True, kw_only=True):
    """Paths and hosts that an MCP server can reach besides its command line; all paths are absolute."""

    network: NetworkAccess = "on"
    hosts: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()  # secret files, too
    caches: bool = False  # whether it shares the caches of package managers in the home folder
