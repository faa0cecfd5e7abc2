"""A command's profile together with the sandbox that holds the command to it."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from holdfast.sandbox.launch import Launch, Lifetime
from holdfast.sandbox.network_proxy import read_inside
from holdfast.sandbox.profile import Profile
from holdfast.sandbox.profiles import Profiles
from holdfast.sandbox.sandbox import Sandbox
from holdfast.values import Lift


class Confinement(Struct, frozen=True):
    """The access of one command, and the sandbox that enforces it."""

    sandbox: Sandbox
    profile: Profile

    @property
    def shortfall(self) -> str:
        """Return what a sandbox that masks secret files can't enforce in this workspace, if anything."""
        return self.profile.shortfall if self.sandbox.held.masks else ""

    def noting_hosts(self) -> "Confinement":
        """The same; if it reaches no network, it learns which hosts the command asks for. Blocks."""
        if self.profile.network != "off" or self.sandbox.backend != "bubblewrap":
            return self
        read = (*self.profile.read, *read_inside())
        return replace(self, profile=replace(self.profile, network="hosts", hosts=(), read=read))

    def launch(
        self, argv: tuple[str, ...], environment: Mapping[str, str], *, lifetime: Lifetime
    ) -> AbstractContextManager[Launch]:
        """How to start the command; leave the context once it is started. Blocks."""
        return self.sandbox.launch(self.profile, argv, environment, lifetime=lifetime)


class Confiner(Struct, frozen=True):
    """Confines the commands of one server."""

    sandbox: Sandbox
    profiles: Profiles

    def confinement(self, workspace: Path, *, cwd: str = "", lift: Lift | None = None) -> Confinement | None:
        """Return a command's confinement; None if it runs without a sandbox. Looks at files, so it blocks."""
        if self.sandbox.confines is None or (lift is not None and lift.everything):
            return None
        return Confinement(self.sandbox, self.profiles.profile(workspace, cwd=cwd, lift=lift))


@runtime_checkable
class Confinable(Protocol):
    """A tool that starts programs in the sandbox."""

    def confinement(self, args: Mapping[str, object], *, workspace: Path, lift: Lift) -> Confinement | None:
        """Return the confinement of a call with these arguments; None without a sandbox. Blocks."""
        ...
