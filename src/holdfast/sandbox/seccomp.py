"""The system calls that a sandboxed command can't make, as a filter that the kernel runs.

It refuses what reaches around the other walls: other processes, the kernel's keys, mounts, new namespaces,
typing into a terminal, and kinds of sockets that no namespace confines.
"""

import errno
import platform
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Literal, TypeAlias

from msgspec import Struct

# Which sockets a command can open. "all": the network is the machine's, so Unix sockets are refused, because
# the abstract ones of other programs are in it. "own": it has a network of its own. "pairs": none but
# connected, unnamed pairs, for where there are no namespaces.
Sockets: TypeAlias = Literal["all", "own", "pairs"]

# Classic BPF: operations, and the values that end a filter.
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
# Where the kernel puts the call's number, the machine and the low half of each argument.
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16
_X32 = 0x40000000  # calls of another interface to the same kernel, with numbers of its own

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_TYPE, _SOCK_DGRAM = 0xF, 2
_NEW_NAMESPACES = 0x7E020000
_NEW_TIME = 0x80
_SET_USER = 0o4000
_MAY_CREATE = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX

# fmt: off
# name: number on x86_64, number on aarch64 (None: there is no such call)
_CALLS: Mapping[str, tuple[int | None, int | None]] = {
    "clone": (56, 220), "clone3": (435, 435), "unshare": (272, 97), "setns": (308, 268),
    "ioctl": (16, 29), "socket": (41, 198), "socketpair": (53, 199),
    "bind": (49, 200), "listen": (50, 201), "connect": (42, 203),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_getfd": (438, 438),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "syslog": (103, 116), "lookup_dcookie": (212, 18), "vhangup": (153, 58),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190),
    "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186),
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "creat": (85, None), "open": (2, None), "openat": (257, 56), "openat2": (437, 437),
    "mknod": (133, None), "mknodat": (259, 33),
    "prlimit64": (302, 261), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180),
}
_REFUSED = (
    "setns", "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "add_key",
    "request_key", "keyctl", "bpf", "perf_event_open", "userfaultfd", "mount", "umount2", "pivot_root",
    "chroot", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
    "name_to_handle_at", "open_by_handle_at", "fanotify_init", "init_module", "finit_module",
    "delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "acct", "quotactl",
    "quotactl_fd", "syslog", "lookup_dcookie", "vhangup", "settimeofday", "clock_settime", "clock_adjtime",
    "sethostname", "setdomainname", "iopl", "ioperm",
)
# Refused as if the kernel were older, so that programs do without: the flags of clone3 and openat2 are out of
# a filter's sight, and what an io_uring does is no system call.
_MISSING = ("clone3", "openat2", "io_uring_setup", "io_uring_enter", "io_uring_register")
# A program that runs as its owner, whoever starts it, would be left behind: where each call has the mode.
_MODE = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
# What changes another process of the same user: where each call has that process's number.
_OTHERS = {
    "prlimit64": 0, "setpriority": 1, "ioprio_set": 1, "sched_setaffinity": 0, "sched_setscheduler": 0,
    "sched_setparam": 0, "sched_setattr": 0,
}
# What processes of one user share where there are no namespaces.
_SHARED = (
    "shmget", "shmat", "shmctl", "semget", "semop", "semctl", "semtimedop", "msgget", "msgsnd", "msgrcv",
    "msgctl", "mq_open", "bind", "listen", "connect",
)
# fmt: on


class _Machine(Struct, frozen=True):
    audit: int
    column: Literal[0, 1]
    has_x32: bool = False


_MACHINES: Mapping[str, _Machine] = {
    "x86_64": _Machine(0xC000003E, 0, has_x32=True),
    "aarch64": _Machine(0xC00000B7, 1),
}


def is_known_machine(machine: str = "") -> bool:
    """Whether there is a filter for this processor."""
    return (machine or platform.machine()) in _MACHINES


@cache
def seccomp_filter(sockets: Sockets, *, machine: str = "") -> bytes:
    """The filter as the kernel reads it: an array of `struct sock_filter`."""
    known = _MACHINES[machine or platform.machine()]
    steps = [
        *_load(_MACHINE),
        *_unless_equal(known.audit, _KILL),
        *_load(_NUMBER),
        *(_if(_IF_AT_LEAST, _X32, _refuse(errno.ENOSYS)) if known.has_x32 else ()),
        # First what every program does all the time.
        *_on(known, "openat", _created(2, 3)),
        *_on(known, "open", _created(1, 2)),
        *_each(known, _REFUSED, errno.EPERM),
        *_each(known, _MISSING, errno.ENOSYS),
        *_each(known, _SHARED if sockets == "pairs" else (), errno.EACCES),
        *_on(known, "unshare", _refuse_flags(_NEW_NAMESPACES | _NEW_TIME)),
        *_on(known, "clone", _refuse_flags(_NEW_NAMESPACES)),
        *_on(known, "ioctl", _ioctls()),
        *_on(known, "socket", _socket(sockets)),
        *_on(known, "socketpair", _socketpair(sockets)),
        *(each for name, nth in _MODE.items() for each in _on(known, name, _refuse_flags(_SET_USER, nth))),
        *(
            each
            for name, nth in (_OTHERS if sockets == "pairs" else {}).items()
            for each in _on(known, name, _refuse_others(nth))
        ),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(steps)


def _step(operation: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", operation, yes, no, value)


def _refuse(code: int) -> int:
    return _ERRNO | code


def _load(offset: int) -> Iterator[bytes]:
    yield _step(_LOAD, offset)


def _argument(nth: int) -> Iterator[bytes]:
    yield from _load(_ARGUMENTS + 8 * nth)


def _if(test: int, value: int, outcome: int) -> Iterator[bytes]:
    """End the filter with this outcome if the test is true."""
    yield _step(test, value, yes=0, no=1)
    yield _step(_RETURN, outcome)


def _unless_equal(value: int, outcome: int) -> Iterator[bytes]:
    yield _step(_IF_EQUAL, value, yes=1, no=0)
    yield _step(_RETURN, outcome)


def _each(machine: _Machine, names: Iterable[str], code: int) -> Iterator[bytes]:
    for name in names:
        number = _CALLS[name][machine.column]
        if number is not None:
            yield from _if(_IF_EQUAL, number, _refuse(code))


def _on(machine: _Machine, name: str, steps: Iterable[bytes]) -> Iterator[bytes]:
    """These steps for one call alone; they must end the filter."""
    number = _CALLS[name][machine.column]
    if number is None:
        return
    body = list(steps)
    yield _step(_IF_EQUAL, number, yes=0, no=len(body))
    yield from body


def _refuse_flags(flags: int, nth: int = 0) -> Iterator[bytes]:
    yield from _argument(nth)
    yield from _if(_IF_ANY_BIT, flags, _refuse(errno.EPERM))
    yield _step(_RETURN, _ALLOW)


def _refuse_others(nth: int) -> Iterator[bytes]:
    """Only the calling process, which is number 0 to itself."""
    yield from _argument(nth)
    yield from _if(_IF_EQUAL, 0, _ALLOW)
    yield _step(_RETURN, _refuse(errno.EPERM))


def _created(flags: int, mode: int) -> Iterator[bytes]:
    """The mode counts only if a file may be created."""
    yield from _argument(flags)
    yield _step(_IF_ANY_BIT, _MAY_CREATE, yes=1, no=0)
    yield _step(_RETURN, _ALLOW)
    yield from _refuse_flags(_SET_USER, mode)


def _ioctls() -> Iterator[bytes]:
    yield from _argument(1)
    for request in _TERMINAL_INPUT:
        yield from _if(_IF_EQUAL, request, _refuse(errno.EPERM))
    yield _step(_RETURN, _ALLOW)


def _socket(sockets: Sockets) -> Iterator[bytes]:
    allowed: tuple[int, ...] = ()
    if sockets != "pairs":
        allowed = (_AF_INET, _AF_INET6, _AF_NETLINK, *((_AF_UNIX,) if sockets == "own" else ()))
    yield from _argument(0)
    for family in allowed:
        yield from _if(_IF_EQUAL, family, _ALLOW)
    yield _step(_RETURN, _refuse(errno.EACCES))


def _socketpair(sockets: Sockets) -> Iterator[bytes]:
    yield from _argument(0)
    yield from _unless_equal(_AF_UNIX, _refuse(errno.EACCES))
    if sockets != "own":
        # One of a datagram pair can still send to any address.
        yield from _argument(1)
        yield _step(_AND, _SOCK_TYPE)
        yield from _if(_IF_EQUAL, _SOCK_DGRAM, _refuse(errno.EACCES))
    yield _step(_RETURN, _ALLOW)
