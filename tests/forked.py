"""`holdfast …` as a process of its own that imports nothing: a fork of one that has imported the program.

Starting Python and importing the program takes ten times as much CPU as starting a server. So each test
process has a fork server (`fork_server.py`), which imports the program once. A fork is a child of the test
process with arguments, environment, folder, files, signals and limits of its own, as if the test had executed
`python -m holdfast …`. Each family of commands also has a test that does that.
"""

import asyncio
import atexit
import ctypes
import functools
import os
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

import holdfast
from fork_server import INHERITED, PID_BYTES, Order

SERVER = Path(__file__).with_name("fork_server.py")
PROGRAM = Path(holdfast.__file__).with_name("__main__.py")
PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37


@dataclass(frozen=True, slots=True)
class Files:
    """Where the standard files of a process lead: PIPE, DEVNULL or an open file."""

    stdin: int = PIPE
    stdout: int = PIPE
    stderr: int = PIPE


class Forked:
    """A process of the program, used as one of asyncio is."""

    def __init__(self, pid: int, stdin: asyncio.StreamWriter | None, *outputs: asyncio.StreamReader) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout, self.stderr = outputs
        self.returncode: int | None = None
        self._has_ended = asyncio.Event()
        self._pidfd = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._reap)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._has_ended.set()

    def send_signal(self, number: int) -> None:
        """Send it a signal; raises ProcessLookupError if it has ended."""
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        """Wait for its end; its exit code, or the signal as a negative number."""
        await self._has_ended.wait()
        assert self.returncode is not None
        return self.returncode

    async def communicate(self, typed: bytes = b"") -> tuple[bytes, bytes]:
        """Type this and close the input; return what it prints up to its end."""
        if self.stdin is not None:
            with suppress(BrokenPipeError, ConnectionResetError):
                self.stdin.write(typed)
                await self.stdin.drain()
            self.stdin.close()
        output, errors, _ = await asyncio.gather(self.stdout.read(), self.stderr.read(), self.wait())
        return output, errors


async def fork(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    files: Files | None = None,
    limits: Mapping[int, tuple[int, int]] | None = None,
) -> Forked:
    """Start `holdfast` with these arguments, and with resource limits of its own."""
    files = files or Files()
    order = Order(
        arguments=[str(PROGRAM), *arguments],
        cwd=str(cwd),
        env=dict(os.environ if env is None else env),  # noqa: TID251  # a child inherits it
        ignored=[int(number) for number in INHERITED if signal.getsignal(number) is signal.SIG_IGN],
        limits=dict(limits or {}),
    )
    stdin, typed = _input(files.stdin)
    outputs = [_output(files.stdout), _output(files.stderr)]
    ends = [stdin, *(theirs for theirs, _ in outputs)]
    try:
        pid = _fork_server().fork(order, ends)
    finally:
        for given, end in zip((files.stdin, files.stdout, files.stderr), ends, strict=True):
            if given < 0:
                os.close(end)
    writer = None if typed is None else await _writer(typed)
    return Forked(pid, writer, *[await _reader(ours) for _, ours in outputs])


def _input(given: int) -> tuple[int, int | None]:
    """The process's end, and ours."""
    if given == PIPE:
        return os.pipe()
    return (os.open(os.devnull, os.O_RDONLY) if given == DEVNULL else given), None


def _output(given: int) -> tuple[int, int | None]:
    if given == PIPE:
        ours, theirs = os.pipe()
        return theirs, ours
    return (os.open(os.devnull, os.O_WRONLY) if given == DEVNULL else given), None


async def _writer(end: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(end, "wb", 0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def _reader(end: int | None) -> asyncio.StreamReader:
    """What the process prints; nothing if it goes elsewhere."""
    reader = asyncio.StreamReader()
    if end is None:
        reader.feed_eof()
        return reader
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(end, "rb", 0)
    )
    return reader


@functools.cache
def _fork_server() -> "_ForkServer":
    return _ForkServer()


class _ForkServer:
    """The test process's side of its fork server, which ends with it."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(SERVER), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C reaches the tests alone, and they end their programs
            )
        atexit.register(self._end)

    def fork(self, order: Order, files: list[int]) -> int:
        """Start a program with these standard files; its pid."""
        with _orphans_adopted():
            socket.send_fds(self._orders, [msgspec.json.encode(order)], files)
            pid = self._orders.recv(PID_BYTES)
        assert pid, "the fork server has ended"
        return int.from_bytes(pid, "big")

    def _end(self) -> None:
        self._orders.close()
        self._process.wait()


@contextmanager
def _orphans_adopted() -> Generator[None]:
    """Make this process the parent of orphans; the fork server hands its forks over in this way."""
    libc, before = ctypes.CDLL(None), ctypes.c_int()
    assert libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0) == 0
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)
