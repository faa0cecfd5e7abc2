"""Confines a command by Landlock and seccomp, where namespaces are refused, as in most containers.

Both apply to the thread that starts the command and to everything started from it, so no helper program is
needed. Landlock only grants whole trees: it can't hide a file in one, and it leaves the process table, /tmp
and file permissions as they are.
"""

import ctypes
import os
import shutil
import struct
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

from msgspec import Struct

from holdfast.sandbox.first_shell import limited
from holdfast.sandbox.launch import BackendName, Launch, Lifetime
from holdfast.sandbox.profile import Profile
from holdfast.sandbox.seccomp import is_known_machine, seccomp_filter
from holdfast.sandbox.system_files import SYSTEM_FOLDERS, etc_paths

ABI_MIN = 3  # older kernels let a confined process cut off any file
_ABI_DEVICES, _ABI_SCOPES = 5, 6
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_SCOPES = 0b11  # abstract Unix sockets and signals
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _DEVICES = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICES
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_NODES = (1 << 6) | (1 << 11)  # device files, which nobody may make
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _SECCOMP_FILTER = 22, 38, 2
_CAPABILITIES_VERSION = 0x20080522
_DAC_OVERRIDE = 1 << 1  # root in a container works on files that belong to others
_DEVICES_READ = ("/dev/zero", "/dev/random", "/dev/urandom")
_DEVICES_WRITTEN = ("/dev/null", "/dev/full", "/dev/tty")


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


class Landlock(Struct, frozen=True):
    """Starts commands from a confined thread; `folder` holds their home and temporary files."""

    folder: Path
    abi: int
    etc: tuple[str, ...]

    @property
    def name(self) -> BackendName:
        """Return its name for people."""
        return "landlock"

    @contextmanager
    def launch(
        self, profile: Profile, argv: tuple[str, ...], environment: Mapping[str, str], *, lifetime: Lifetime
    ) -> Generator[Launch]:
        """How to start it."""
        del lifetime  # nothing ends such a command but a signal
        home, temporary = str(self.folder / "home"), str(self.folder / "tmp")
        inside = {name: value for name, value in environment.items() if not name.startswith("XDG_")}
        ruleset = _ruleset(self.abi)
        try:
            for path, access in self._granted(profile, home, temporary):
                _grant(ruleset, path, access & _handled(self.abi))
            program = seccomp_filter("all" if profile.network == "on" else "pairs")
            yield Launch(
                argv=limited(argv, profile.limits),
                environment={**inside, "HOME": home, "TMPDIR": temporary},
                restrict=partial(_restrict, ruleset, program),
            )
        finally:
            os.close(ruleset)

    def _granted(self, profile: Profile, home: str, temporary: str) -> Iterator[tuple[str, int]]:
        everything = ~_NODES
        for path in (*SYSTEM_FOLDERS, *self.etc, *profile.read, "/proc", "/sys/devices/system/cpu"):
            yield path, _READ
        if profile.network == "on":
            yield os.path.realpath("/etc/resolv.conf"), _READ
        for path in _DEVICES_READ:
            yield path, _READ_FILE
        for path in _DEVICES_WRITTEN:
            yield path, _READ_FILE | _WRITE_FILE | _TRUNCATE | _DEVICES
        for path in (profile.workspace, *profile.write, *profile.caches, home, temporary):
            yield path, everything


def open_landlock(folder: Path, *, git_config: str = "") -> Landlock | None:
    """Prepare the folder; None if this kernel can't confine enough. Blocks.

    `git_config` is the git configuration of the home folder that commands see.
    """
    if sys.platform != "linux" or not is_known_machine() or (abi := _abi()) < ABI_MIN:
        return None
    for name in ("home", "tmp"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "home" / ".gitconfig").write_text(git_config, encoding="utf-8")
    return Landlock(folder, abi, etc_paths())


def _abi() -> int:
    return _libc().syscall(_CREATE_RULESET, None, 0, 1)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _handled(abi: int) -> int:
    return (1 << 16 if abi >= _ABI_DEVICES else 1 << 15) - 1


def _ruleset(abi: int) -> int:
    # Of the network nothing: the filter of system calls refuses all of it, or nothing.
    scoped = struct.pack("=QQ", 0, _SCOPES) if abi >= _ABI_SCOPES else b""
    attributes = struct.pack("=Q", _handled(abi)) + scoped
    descriptor = _libc().syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if descriptor < 0:
        raise _failure("landlock_create_ruleset")
    return descriptor


def _grant(ruleset: int, path: str, access: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what isn't there needs no grant
    try:
        if not os.path.isdir(path):  # noqa: PTH112 - a text, not a path
            access &= _OF_FILES
        rule = struct.pack("=Qi", access, parent)
        if _libc().syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0) != 0:
            raise _failure("landlock_add_rule")
    finally:
        os.close(parent)


def _restrict(ruleset: int, program: bytes) -> None:
    """Confine this thread; raises OSError, and then nothing may be started from it."""
    libc = _libc()
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise _failure("no_new_privs")
    if os.geteuid() == 0:
        _drop_capabilities(libc)
    if libc.syscall(_RESTRICT_SELF, ruleset, 0) != 0:
        raise _failure("landlock_restrict_self")
    loaded = _Program(length=len(program) // 8, steps=program)
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(loaded), 0, 0) != 0:
        raise _failure("seccomp")


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    header = struct.pack("=Ii", _CAPABILITIES_VERSION, 0)
    now = ctypes.create_string_buffer(24)
    if libc.capget(header, now) != 0:
        raise _failure("capget")
    _, permitted, *_ = struct.unpack("=6I", now.raw)
    kept = permitted & _DAC_OVERRIDE
    if libc.capset(header, struct.pack("=6I", kept, kept, 0, 0, 0, 0)) != 0:
        raise _failure("capset")


def _failure(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
