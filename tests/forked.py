"""`holdfast` as a process of its own that doesn't import anything: a fork of one that has.

Starting Python and importing the program costs ten times as much as starting a server. So each test process
has a fork server, which imports the program once. What it forks is a child of the test process, as if the
test had started it: `forked("serve", …)` behaves like `python -m holdfast serve …`.
"""

import asyncio
import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

import holdfast

if TYPE_CHECKING:
    from collections.abc import Generator

ORDER_BYTES_MAX = 150_000
PID_BYTES = 8
PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37
# A child keeps ignoring these if its parent does.
INHERITED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)

# All that these commands import before they listen or ask the model.
IMPORTED = ("uvloop", "holdfast.cli.piped_input", "holdfast.cli.run", "holdfast.cli.serve")


class Order(msgspec.Struct):
    """One program to start; its standard output and error travel with it."""

    words: list[str]
    folder: str
    environment: dict[str, str]
    ignored: list[int]
    limits: dict[int, tuple[int, int]]


class ForkedProcess:
    """A started program, with the part of `asyncio.subprocess.Process` that tests use."""

    def __init__(self, pid: int, stdout: asyncio.StreamReader, stderr: asyncio.StreamReader) -> None:
        self.pid, self.stdout, self.stderr = pid, stdout, stderr
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
        """Send a signal to the program alone."""
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        """Wait for its end; its exit code."""
        await self._has_ended.wait()
        assert self.returncode is not None
        return self.returncode

    async def communicate(self) -> tuple[bytes, bytes]:
        """Wait for its end; the rest of its output and its errors."""
        output, errors, _ = await asyncio.gather(self.stdout.read(), self.stderr.read(), self.wait())
        return output, errors


async def forked(
    *words: str,
    folder: Path,
    output: BinaryIO | None = None,
    limits: Mapping[int, tuple[int, int]] | None = None,
) -> ForkedProcess:
    """Start `holdfast` with these words in a folder, with resource limits of its own.

    Its output and errors are streams of the process, or go to a file.
    """
    ignored = [int(number) for number in INHERITED if signal.getsignal(number) is signal.SIG_IGN]
    environment = dict(os.environ)  # noqa: TID251  # a child inherits it
    order = Order([*words], str(folder), environment, ignored, dict(limits or {}))
    stdout, stderr = asyncio.StreamReader(), asyncio.StreamReader()
    if output is not None:
        stdout.feed_eof()
        stderr.feed_eof()
        return ForkedProcess(_fork_server().fork(order, output.fileno(), output.fileno()), stdout, stderr)
    ends = [await _readable(stream) for stream in (stdout, stderr)]
    try:
        return ForkedProcess(_fork_server().fork(order, *ends), stdout, stderr)
    finally:
        for end in ends:
            os.close(end)


async def _readable(stream: asyncio.StreamReader) -> int:
    """A new pipe that the stream reads; its other end."""
    reading, writing = os.pipe()
    protocol = asyncio.StreamReaderProtocol(stream)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(reading, "rb"))
    return writing


@functools.cache
def _fork_server() -> "_ForkServer":
    return _ForkServer()


class _ForkServer:
    """The test process's side of its fork server, which ends with it."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C reaches the tests alone, and they end their programs
            )
        atexit.register(self._end)

    def fork(self, order: Order, *output: int) -> int:
        """Start a program; its pid."""
        with _orphans_adopted():
            socket.send_fds(
                self._orders, [json.dumps(msgspec.to_builtins(order, str_keys=True)).encode()], output
            )
            pid = self._orders.recv(PID_BYTES)
        assert pid, "the fork server has ended"
        return int.from_bytes(pid, "big")

    def _end(self) -> None:
        self._orders.close()
        self._process.wait()


@contextmanager
def _orphans_adopted() -> "Generator[None]":
    """Make this process the parent of orphans; the fork server hands its forks over in this way."""
    libc, before = ctypes.CDLL(None), ctypes.c_int()
    assert libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0) == 0
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def _next_fork(orders: socket.socket) -> tuple[Order, list[int]] | None:
    """In each forked process, its order and its output; in the fork server, None at the end of the tests."""
    while True:
        text, output, _, _ = socket.recv_fds(orders, ORDER_BYTES_MAX, 2)
        if not text:
            return None
        reading, writing = os.pipe()
        between = os.fork()
        if not between:
            if pid := os.fork():
                os.write(writing, pid.to_bytes(PID_BYTES, "big"))
                os._exit(0)  # and so the test process adopts its child
            os.close(reading)
            os.close(writing)
            return msgspec.json.decode(text, type=Order), output
        os.waitpid(between, 0)
        orders.send(os.read(reading, PID_BYTES))
        for descriptor in (reading, writing, *output):
            os.close(descriptor)


def _become(order: Order, output: list[int]) -> None:
    """Take on what a program inherits from its parent."""
    os.setsid()
    for number in INHERITED:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in order.ignored else usual)
    for standard, descriptor in enumerate(output, 1):
        os.dup2(descriptor, standard)
    for descriptor in output:
        os.close(descriptor)
    os.chdir(order.folder)
    inherited = os.environ  # noqa: TID251  # that of the fork server
    inherited.clear()
    inherited.update(order.environment)
    sys.argv = [str(Path(holdfast.__file__).with_name("__main__.py")), *order.words]
    for which, most in order.limits.items():
        resource.setrlimit(which, most)


def _serve_forks(descriptor: int) -> None:
    """The fork server, and every process that it forks."""
    for module in IMPORTED:
        importlib.import_module(module)
    from holdfast.cli.main import main

    gc.collect()
    gc.freeze()
    with socket.socket(fileno=descriptor) as orders:
        mine = _next_fork(orders)
    if mine is not None:
        _become(*mine)
        main()


if __name__ == "__main__":
    _serve_forks(int(sys.argv[1]))
