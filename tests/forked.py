"""`holdfast …` as a process of its own that imports nothing: a fork of one that has imported the program.

It has its own arguments, environment, folder, files, signals and exit code, as if a shell had started it,
and takes a third of the CPU time. Each family of commands has a test that executes a real program, and so
have tests of what a process imports or inherits.
"""

import asyncio
import atexit
import functools
import json
import os
import socket
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import holdfast

FORKER = Path(__file__).with_name("forker.py")
PROGRAM = Path(holdfast.__file__).with_name("__main__.py")


@functools.cache
def _requests() -> socket.socket:
    """The way to this test process's forker, which ends when it is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, str(FORKER), str(theirs.fileno())]
        forker = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def end() -> None:
        ours.close()
        forker.wait()

    atexit.register(end)
    return ours


@dataclass(frozen=True, slots=True)
class Files:
    """Where the standard files of a process lead: PIPE, DEVNULL or an open file."""

    stdin: int = PIPE
    stdout: int = PIPE
    stderr: int = PIPE


@dataclass(frozen=True, slots=True)
class Forked:
    """A process of the program, used as one of asyncio is."""

    pid: int
    stdin: asyncio.StreamWriter | None
    stdout: asyncio.StreamReader | None
    stderr: asyncio.StreamReader | None
    _end: asyncio.Task[int]

    @property
    def returncode(self) -> int | None:
        """The exit code, or the signal as a negative number; None while it runs."""
        return self._end.result() if self._end.done() else None

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if not self._end.done():
            os.kill(self.pid, number)

    async def wait(self) -> int:
        """Wait for its end."""
        return await asyncio.shield(self._end)

    async def communicate(self, typed: bytes = b"") -> tuple[bytes, bytes]:
        """Type this and close the input; return what it prints up to its end."""
        await self._type(typed)
        out, err = await asyncio.gather(_rest(self.stdout), _rest(self.stderr))
        await self.wait()
        return out, err

    async def _type(self, typed: bytes) -> None:
        if self.stdin is None:
            return
        with suppress(BrokenPipeError, ConnectionResetError):
            self.stdin.write(typed)
            await self.stdin.drain()
        self.stdin.close()


async def _rest(reader: asyncio.StreamReader | None) -> bytes:
    return b"" if reader is None else await reader.read()


async def fork(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, files: Files | None = None
) -> Forked:
    """Start `holdfast` with these arguments."""
    files = files or Files()
    request = {
        "program": str(PROGRAM),
        "arguments": arguments,
        "cwd": str(cwd),
        "env": dict(env or os.environ),  # noqa: TID251  # as a process inherits it
    }
    report, reporter = socket.socketpair()
    stdin, typed = _input(files.stdin)
    stdout, printed = _output(files.stdout)
    stderr, complained = _output(files.stderr)
    ends = [stdin, stdout, stderr, reporter.fileno()]
    socket.send_fds(await asyncio.to_thread(_requests), [json.dumps(request).encode()], ends)
    reporter.close()
    for given, end in zip((files.stdin, files.stdout, files.stderr), ends, strict=False):
        if given < 0:
            os.close(end)
    lines, closing = await asyncio.open_unix_connection(sock=report)
    pid = int(await lines.readline())
    return Forked(
        pid,
        None if typed is None else await _writer(typed),
        None if printed is None else await _reader(printed),
        None if complained is None else await _reader(complained),
        asyncio.create_task(_ended(lines, closing)),
    )


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


async def _reader(end: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(end, "rb", 0)
    )
    return reader


async def _ended(lines: asyncio.StreamReader, closing: asyncio.StreamWriter) -> int:
    code = int(await lines.readline())
    closing.close()
    await closing.wait_closed()
    return code
