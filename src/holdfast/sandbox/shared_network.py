"""Lets a command use the network of a confined process, so that it reaches the ports that this one opened."""

import fcntl
import os
import shutil
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from msgspec import Struct

_OWNER_OF = 0xB701  # NS_GET_USERNS: the user namespace that a namespace belongs to
_BASH = "/bin/bash"


class SharedNetwork(Struct, frozen=True):
    """A network that a command is started in; its descriptors are open while the context is."""

    enter: tuple[str, ...]  # the words before the command that enter it
    fds: tuple[int, ...]


@contextmanager
def shared_network(pid: int) -> Generator[SharedNetwork | None]:
    """The network of a process of ours; None if it is gone or has none of its own. Blocks."""
    with ExitStack() as stack:
        yield _entered(pid, stack)


def _entered(pid: int, stack: ExitStack) -> SharedNetwork | None:
    nsenter = shutil.which("nsenter", path=os.defpath)
    # Only bash can close the descriptors again, since their numbers can have several digits.
    if not pid or nsenter is None or not os.path.exists(_BASH):  # noqa: PTH110 - a text, not a path
        return None
    try:
        network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, network)
        if os.fstat(network).st_ino == os.stat("/proc/self/ns/net").st_ino:  # noqa: PTH116
            return None
        owner = fcntl.ioctl(network, _OWNER_OF)
        stack.callback(os.close, owner)
    except OSError:
        return None
    words = ("--preserve-credentials", f"--user=/proc/self/fd/{owner}", f"--net=/proc/self/fd/{network}")
    return SharedNetwork((nsenter, *words), (network, owner))
