"""The sandbox of a server: one backend, what it was shown to hold, and how a command is started in it."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, field

from holdfast.sandbox.bubblewrap import open_bubblewrap
from holdfast.sandbox.landlock import open_landlock
from holdfast.sandbox.launch import Backend, BackendName, Launch, Lifetime
from holdfast.sandbox.profile import MOUNTS_MAX, Profile, SandboxMode
from holdfast.sandbox.self_test import Held, SelfTestFailed, self_test


class SandboxRefused(OSError):
    """A sandbox is required, and none holds here; the text says why, and what to do."""


class Sandbox(Struct, frozen=True):
    """The sandbox of this server's commands; `why` says what is missing, if anything."""

    confines: Backend | None = None
    held: Held = field(default_factory=Held)
    why: str = ""

    @property
    def backend(self) -> BackendName:
        """Return the backend's name."""
        return self.confines.name if self.confines else "none"

    @property
    def owns_processes(self) -> bool:
        """Whether all processes of a command end with its first one."""
        return self.backend == "bubblewrap"

    def contains(self, profile: Profile) -> bool:
        """Whether nothing can leave this profile, so that a command can run in it without asking."""
        held = self.held
        return (
            self.confines is not None
            and profile.known
            and len(profile.pinned) <= MOUNTS_MAX
            and held.writes
            and held.permissions
            and held.home
            and held.processes
            and (held.masks or not profile.masked)
            and (held.protected or not profile.protected)
            and (held.network or profile.network == "on")
            and (profile.network != "hosts" or self.backend == "bubblewrap")
        )

    @contextmanager
    def launch(
        self,
        profile: Profile,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        *,
        lifetime: Lifetime = "with_server",
    ) -> Generator[Launch]:
        """How to start the command; leave the context once it is started. Blocks: call it off the loop.

        Without a backend the command starts as it is.
        """
        if self.confines is None:
            yield Launch(argv=argv, environment=environment)
            return
        with self.confines.launch(profile, argv, environment, lifetime=lifetime) as launch:
            yield launch


def open_sandbox(mode: SandboxMode, folder: Path, *, search: str, git_config: str = "") -> Sandbox:
    """The best sandbox that holds on this machine; raises SandboxRefused if one is required. Blocks.

    `folder` is the sandbox's own, `search` the path on which bubblewrap is looked for, and `git_config` what
    git is told about the user, whose own settings are out of reach.
    """
    if mode == "off":
        return Sandbox(why="The sandbox is off in the configuration.")
    folder = folder.absolute()  # commands start in another folder, where a relative path leads elsewhere
    reasons: list[str] = []
    weaker: Sandbox | None = None
    openers: dict[str, Callable[[], Backend | None]] = {
        "bubblewrap is not installed.": lambda: open_bubblewrap(folder, search=search, git_config=git_config),
        "Landlock is not available.": lambda: open_landlock(folder, git_config=git_config),
    }
    for opened in _opened(openers, reasons):
        try:
            held = self_test(opened, folder)
        except (OSError, SelfTestFailed) as error:
            reasons.append(f"{opened.name}: {error}")
            continue
        missing = [name for name in held.__struct_fields__ if not getattr(held, name)]
        if not missing:
            return Sandbox(opened, held, " ".join(reasons))
        reasons.append(f"{opened.name} doesn't enforce: {', '.join(missing)}.")
        weaker = weaker or Sandbox(opened, held)
    why = " ".join(reasons)
    if mode == "require":
        raise SandboxRefused(
            f'sandbox.mode is "require", but no sandbox passes the self-test on this machine. {why} Install '
            'bubblewrap and allow user namespaces, or set sandbox.mode to "auto".'
        )
    return Sandbox(weaker.confines, weaker.held, why) if weaker else Sandbox(why=why)


def _opened(openers: Mapping[str, Callable[[], Backend | None]], reasons: list[str]) -> Iterator[Backend]:
    for reason, opener in openers.items():
        try:
            opened = opener()
        except OSError as error:  # a server must start on a full disk; the other backend writes there too
            reasons.append(f"The sandbox's files can't be written: {error.strerror or error}.")
            return
        if opened is None:
            reasons.append(reason)
        else:
            yield opened
