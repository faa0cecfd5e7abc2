"""Confines a command with bubblewrap: its own namespaces, and a file system of only what it can access.

Sources in the workspace are opened before they are mounted. bubblewrap checks that it mounted the open file,
or ends, so a path that another command swaps for a link leads nowhere.

Lets a command use the network of a confined process, so that it reaches the ports that this one opened.
"""

import fcntl
import os
import shutil
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from holdfast.sandbox.first_shell import limited, waited_for
from holdfast.sandbox.launch import BackendName, Launch, Lifetime
from holdfast.sandbox.profile import MOUNTS_MAX, Profile
from holdfast.sandbox.seccomp import seccomp_filter
from holdfast.sandbox.system_files import SYSTEM_FOLDERS, is_below, is_in, write_etc

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


_ETC = "/etc"
_TMP, _VAR_TMP = "/tmp", "/var/tmp"  # noqa: S108 - the command's own
# Variables that name folders which are not there, or are others, inside.
_MARKS = ("HOLDFAST_RUN", "HOLDFAST_SERVER")  # by which the processes of a call are found
_NOT_INSIDE = ("XDG_RUNTIME_DIR", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
_UNSHARED = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
_OF_RUN = ("/run/current-system", "/run/opengl-driver")  # where a system keeps its programs
_FIRST, _READ, _WRITE, _KEPT = range(4)
_Mount: TypeAlias = tuple[int, int, tuple[str, ...]]  # how deep, in which order there, and the words


class Bubblewrap(Struct, frozen=True):
    """Starts commands through `bwrap`; `folder` holds the /etc they see, and an unreadable file."""

    program: str
    folder: Path
    system: tuple[str, ...]

    @property
    def name(self) -> BackendName:
        """Return its name for people."""
        return "bubblewrap"

    @contextmanager
    def launch(
        self, profile: Profile, argv: tuple[str, ...], environment: Mapping[str, str], *, lifetime: Lifetime
    ) -> Generator[Launch]:
        """How to start it; the descriptors are open while the context is."""
        left_out = _NOT_INSIDE if profile.base == "small" else _NOT_INSIDE[:2]
        inside = {name: value for name, value in environment.items() if name not in left_out}
        # A profile with the whole file system also has the Unix sockets of other programs.
        sockets = "own" if profile.base == "small" and profile.network != "on" else "all"
        with ExitStack() as stack:
            sources = _Sources(stack)
            words = [*self._options(profile, lifetime, sources), "--clearenv"]
            for name, value in {**inside, "HOME": profile.home, "TMPDIR": _TMP}.items():
                words += ["--setenv", name, value]
            beside = profile.beside if profile.network == "off" else 0
            network = stack.enter_context(shared_network(beside))
            if profile.network != "on" and network is None:
                words.append("--unshare-net")
            filter_fd = stack.enter_context(_memory_file("filter", seccomp_filter(sockets)))
            report_fd = stack.enter_context(_memory_file("report", b""))
            words += ["--seccomp", str(filter_fd), "--json-status-fd", str(report_fd)]
            words_fd = stack.enter_context(
                _memory_file(
                    "words", b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)
                )
            )
            first = waited_for if lifetime == "with_server" else limited
            enter, shared = (network.enter, network.fds) if network else ((), ())
            inner = first(argv, profile.limits, close=shared)
            yield Launch(
                argv=(*enter, self.program, "--args", str(words_fd), "--", *inner),
                # Its first process inside shows this to the others.
                environment={name: environment[name] for name in _MARKS if name in environment},
                cwd="/",
                pass_fds=(filter_fd, words_fd, report_fd, *shared, *sources.fds),
                report_fd=report_fd,
            )

    def _options(self, profile: Profile, lifetime: Lifetime, sources: "_Sources") -> Iterator[str]:
        yield from _UNSHARED
        # In a network that another process made, its user namespace has other numbers.
        yield from ("--uid", str(os.getuid()), "--gid", str(os.getgid()))
        if lifetime != "outlives_server":
            yield "--die-with-parent"
        yield from ("--new-session", "--cap-drop", "ALL")
        yield from self._base(profile)
        for _, _, words in sorted(self._mounts(profile, sources), key=lambda mount: mount[:2]):
            yield from words
        if self._adds_to(profile, _ETC):
            yield from ("--remount-ro", _ETC)
        if profile.base == "whole" and not is_in(profile.home, profile.write):
            yield from ("--remount-ro", profile.home)  # what is written there would be lost
        yield from ("--remount-ro", "/", "--chdir", profile.cwd)

    def _base(self, profile: Profile) -> Iterator[str]:
        yield from self.system if profile.base == "small" else ("--ro-bind", "/", "/")
        yield from self._etc(profile, _ETC)
        if profile.network == "on":
            yield from ("--ro-bind-try", os.path.realpath("/etc/resolv.conf"), "/etc/resolv.conf")
        yield from ("--proc", "/proc", "--dev", "/dev")
        if profile.base == "small":
            yield from ("--dir", "/run")
        else:
            # The sockets of other programs are here, and what they were given to keep secret.
            yield from ("--tmpfs", "/run")
            for path in _OF_RUN:
                yield from ("--ro-bind-try", path, path)
        if os.getuid() == 0:
            # Its files belong to root, so settings of the whole machine could be changed.
            yield from ("--remount-ro", "/proc")
        yield from ("--perms", "1777", "--tmpfs", _TMP)
        if profile.base == "small" and not any(is_below(path, _VAR_TMP) for path in _outside(profile)):
            yield from ("--symlink", "../tmp", _VAR_TMP)  # a mount costs more
        else:
            yield from ("--perms", "1777", "--tmpfs", _VAR_TMP)

    def _etc(self, profile: Profile, path: str) -> Iterator[str]:
        """The sandbox's own /etc, or a folder in it; in parts where more of the real one is mounted there."""
        made = f"{self.folder}{path}"
        if not self._adds_to(profile, path):
            yield from ("--ro-bind", made, path)
            return
        yield from ("--tmpfs" if path == _ETC else "--dir", path)
        with os.scandir(made) as entries:
            for entry in entries:
                inside = f"{path}/{entry.name}"
                if entry.is_symlink():
                    yield from ("--symlink", str(Path(entry.path).readlink()), inside)
                elif entry.is_dir():
                    yield from self._etc(profile, inside)
                else:
                    yield from ("--ro-bind", entry.path, inside)

    def _adds_to(self, profile: Profile, folder: str) -> bool:
        """Whether something is mounted in this folder of /etc for which there is no place yet."""
        added = (path for path in _outside(profile) if is_below(path, folder))
        return any(not os.path.lexists(f"{self.folder}{path}") for path in added)

    def _links(self, profile: Profile) -> Iterator[tuple[str, str]]:
        for path, leads_to in profile.links:
            if not (is_below(path, _ETC) and os.path.lexists(f"{self.folder}{path}")):
                yield path, leads_to

    def _mounts(self, profile: Profile, sources: "_Sources") -> Iterator[_Mount]:
        """Return the mounts: shallow ones first and, at the same path, masks last."""
        if profile.home != "/" and not (profile.workspace and is_below(profile.home, profile.workspace)):
            yield _mount(profile.home, _FIRST, "--perms", "0700", "--tmpfs", profile.home)
        for path, leads_to in self._links(profile):
            yield _mount(path, _READ, "--symlink", leads_to, path)
        for path in profile.read:
            if profile.base == "whole":  # it can be a link that leads out of the home folder
                yield _mount(path, _READ, "--ro-bind-try", path, path)
            elif os.path.lexists(path):
                yield _mount(path, _READ, "--ro-bind-fd", sources.opened(path), path)
        for path, inside in profile.kept:
            yield _mount(inside, _WRITE, "--bind", path, inside)
        required = (profile.workspace,) if profile.workspace else ()
        existing = (path for path in (*profile.write, *profile.caches) if os.path.lexists(path))
        for path in (*required, *existing, *profile.pinned[:MOUNTS_MAX]):
            yield _mount(path, _WRITE, "--bind-fd", sources.opened(path), path)
        for path in profile.protected:
            yield _mount(path, _KEPT, "--ro-bind-fd", sources.opened(path), path)
        unreadable = str(self.folder / "unreadable")
        for path in profile.masked:
            over_folder = ("--perms", "0000", "--tmpfs", path, "--remount-ro", path)
            is_folder = os.path.isdir(path)  # noqa: PTH112 - a text, not a path
            yield _mount(path, _KEPT, *(over_folder if is_folder else ("--ro-bind", unreadable, path)))


class PathMoved(OSError):
    """A path isn't where it was when the profile was made, so the command isn't started."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} was moved or removed while the sandbox was being set up. Run the command again."
        )


class _Sources:
    """The sources of mounts, open until the command is started."""

    def __init__(self, stack: ExitStack) -> None:
        self.fds: list[int] = []
        self._stack = stack

    def opened(self, path: str) -> str:
        """Open a path without links, and return its descriptor; raises PathMoved if it leads elsewhere."""
        try:
            descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise PathMoved(path) from error
        self._stack.callback(os.close, descriptor)
        if os.readlink(f"/proc/self/fd/{descriptor}") != path:  # noqa: PTH115 - a text, not a path
            raise PathMoved(path)
        self.fds.append(descriptor)
        return str(descriptor)


def _mount(path: str, rank: int, *words: str) -> _Mount:
    return path.rstrip("/").count("/"), rank, words


def open_bubblewrap(folder: Path, *, search: str, git_config: str = "") -> Bubblewrap | None:
    """Prepare the folder, and find `bwrap` on this search path; None if it isn't there. Blocks.

    `git_config` is added to the settings that git has from the system.
    """
    program = shutil.which("bwrap", path=search)
    if program is None:
        return None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_etc(folder / "etc", git_config=git_config)
    unreadable = folder / "unreadable"
    unreadable.touch(mode=0o000)
    unreadable.chmod(0o000)
    return Bubblewrap(program, folder, tuple(_system()))


def _system() -> Iterator[str]:
    for path in map(Path, SYSTEM_FOLDERS):
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    yield from ("--ro-bind-try", "/sys/devices/system/cpu", "/sys/devices/system/cpu")


def _outside(profile: Profile) -> tuple[str, ...]:
    """Return the mounts besides the system and the workspace."""
    return (*profile.read, *profile.write, *(path for path, _ in profile.links))


@contextmanager
def _memory_file(name: str, data: bytes) -> Generator[int]:
    descriptor = os.memfd_create(name)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
