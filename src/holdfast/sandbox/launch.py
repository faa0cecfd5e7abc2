"""How a confined command is started."""

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias

from msgspec import Struct

from holdfast.sandbox.profile import Profile

if TYPE_CHECKING:
    from subprocess import Popen

BackendName: TypeAlias = Literal["bubblewrap", "landlock", "none"]
# Whether a command may outlive the server, as a background process does. "connected" is a program whose
# output is a protocol, so nothing may be added to it.
_EXIT_CODE = b'"exit-code"'
_REPORT_BYTES_MAX = 4_096
Lifetime: TypeAlias = Literal["with_server", "connected", "outlives_server"]


class Launch(Struct, frozen=True, kw_only=True):
    """How to start a command, as long as the context that it came from is open.

    `restrict`, if there is one, confines the calling thread for good, and what it then starts inherits that.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: str = ""  # if empty, wherever the caller wants to start it
    pass_fds: tuple[int, ...] = ()
    restrict: Callable[[], None] | None = None
    report_fd: int = -1  # where the sandbox writes how far the command got; -1 if it doesn't

    def start(self, start: Callable[[], "Popen[bytes]"]) -> "Popen[bytes]":
        """Call the function that starts it, confined; raises what that raises. Blocks."""
        restrict = self.restrict
        if restrict is None:
            return start()
        started: list[Popen[bytes]] = []
        failed: list[BaseException] = []

        def in_thread() -> None:
            try:
                restrict()
                started.append(start())
            except BaseException as error:  # noqa: BLE001 - it is raised below, in the thread that waits
                failed.append(error)

        # A thread of its own, which ends at once: restrictions can't be taken off again.
        thread = threading.Thread(target=in_thread, name="holdfast-confined-start", daemon=True)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return started[0]


class StartReport:
    """Whether a command ran in the sandbox at all, or the sandbox failed; `with` closes it."""

    def __init__(self) -> None:
        self._fd = -1

    def take(self, launch: Launch) -> None:
        """Keep what this launch reports, beyond the end of its context."""
        if launch.report_fd >= 0:
            self._fd = os.dup(launch.report_fd)

    def is_failure(self) -> bool:
        """Whether the sandbox ended without saying how the command ended. Ask after its process has ended."""
        return self._fd >= 0 and _EXIT_CODE not in os.pread(self._fd, _REPORT_BYTES_MAX, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Backend(Protocol):
    """A way to confine a command."""

    @property
    def name(self) -> BackendName:
        """Return its name for people."""
        ...

    def launch(
        self, profile: Profile, argv: tuple[str, ...], environment: Mapping[str, str], *, lifetime: Lifetime
    ) -> AbstractContextManager[Launch]:
        """How to start the command confined to the profile; leave the context once it is started. Blocks."""
        ...
