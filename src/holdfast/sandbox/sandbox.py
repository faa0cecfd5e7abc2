"""The sandbox of a server: one backend, what it was shown to hold, and how a command is started in it."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from holdfast.sandbox.profile import Profile

SandboxMode: TypeAlias = Literal["auto", "require", "off"]
BackendName: TypeAlias = Literal["bubblewrap", "landlock", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start a command: `pass_fds` are open while the launch is."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: str
    pass_fds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What the self-test showed: each is True if an attempt to get around it failed."""

    writes: bool = False  # nothing outside the workspace can be written
    home: bool = False  # files of the home folder can't be read
    masks: bool = False  # secret files of the workspace can't be read
    protected: bool = False  # protected files of the workspace can't be changed
    processes: bool = False  # other processes can't be read, traced or signalled
    network: bool = False  # nothing can be connected to


class SandboxRefused(Exception):
    """The sandbox is required and doesn't hold; the text says what failed."""


class Backend(Protocol):
    """A way to confine a command.

    `launch` may block. What it opens is closed when its context is left, which is after the command was
    started, not after it ended.
    """

    name: BackendName

    def launch(self, profile: Profile, argv: tuple[str, ...], environment: Mapping[str, str]) -> Launch:
        """How to start the command confined to the profile."""
        ...


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What commands of this server run in; `why` says what is missing, for people."""

    backend: BackendName = "none"
    held: Held = field(default_factory=Held)
    why: str = ""

    def contains(self, profile: Profile) -> bool:
        """Whether a command with this profile can run without asking: nothing can leave the profile."""
        del profile
        return False

    @contextmanager
    def launch(
        self, profile: Profile, argv: tuple[str, ...], environment: Mapping[str, str]
    ) -> Generator[Launch]:
        """Start it so while the context is open. Blocks: call it off the loop."""
        yield Launch(argv=argv, environment=environment, cwd=profile.cwd)
