"""Parses commands for the approval policy: short ones here, long or broken ones in a child process.

The parser holds the GIL, so a text that takes long would block every run. Such a text
goes to a child process, which is killed when its time is over; the command then needs approval. A child is
reused for the next text. It ends when this process does: its socket is closed then, and its own alarm ends
even a running parse.
"""

import os
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.tools.shell import command_reader_child
from holdfast.tools.shell.command_reader_child import LENGTH_BYTES, framed

# The parser is many modules, so the first command imports them.
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.policy.shell.wrappers import ScriptStep

PATIENCE_S = 2.0
START_S = 10.0
CHILDREN_MAX = 2
ANSWER_BYTES_MAX = 8 * 1024 * 1024
REMEMBERED_MAX = 16
TOO_SLOW = "Checking it takes too long."
_CHUNK_BYTES = 64 * 1024


class CommandReader:
    """Does what `steps_of` does. It blocks, so call it in a thread; any number of threads may.

    The creator closes it; one that is no longer referenced closes itself.
    """

    def __init__(self, *, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._slots = threading.BoundedSemaphore(CHILDREN_MAX)
        self._lock = threading.Lock()
        self._idle: list[_Child] = []
        self._living: set[_Child] = set()
        self._remembered: OrderedDict[tuple[str, ...], tuple[ScriptStep, ...]] = OrderedDict()
        self._closed = False
        self._finalize = weakref.finalize(self, _kill_all, self._living)

    def __call__(self, argv: tuple[str, ...]) -> "tuple[ScriptStep, ...]":
        """Everything that an argv would run; see `steps_of`."""
        from holdfast.policy.shell.syntax import is_costly
        from holdfast.policy.shell.verdicts import steps_of

        if not any(map(is_costly, argv)):
            return steps_of(argv)
        with self._lock:
            if argv in self._remembered:
                return self._remembered[argv]
        steps = self._read(argv)
        with self._lock:
            self._remembered[argv] = steps
            while len(self._remembered) > REMEMBERED_MAX:
                self._remembered.popitem(last=False)
        return steps

    def close(self) -> None:
        """End the children; pending requests return as not parsed."""
        with self._lock:
            self._closed = True
        self._finalize()

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that are alive for us."""
        with self._lock:
            return tuple(child.pid for child in self._living)

    def _read(self, argv: tuple[str, ...]) -> "tuple[ScriptStep, ...]":
        from holdfast.policy.shell.verdicts import unread

        # Earlier callers may have to wait for a process to start.
        if not self._slots.acquire(timeout=START_S + self._patience_s):
            return unread(argv, TOO_SLOW)
        try:
            child = self._take()
            if child is None:
                return unread(argv, TOO_SLOW)
            try:
                steps = tuple(child.read(argv, patience_s=self._patience_s))
            except (OSError, msgspec.MsgspecError):
                self._drop(child)
                return unread(argv, TOO_SLOW)
            with self._lock:
                self._idle.append(child)
            return steps
        finally:
            self._slots.release()

    def _take(self) -> "_Child | None":
        """A child to ask: one that waits, or a new one; None if there cannot be one."""
        with self._lock:
            child = self._idle.pop() if self._idle else None
        if child is not None and child.is_alive():
            return child
        if child is not None:
            self._drop(child)
        try:
            child = _Child(self._patience_s)
        except OSError:
            return None
        with self._lock:
            self._living.add(child)
            closed = self._closed
        if closed:
            self._drop(child)
            return None
        return child

    def _drop(self, child: "_Child") -> None:
        child.kill()
        with self._lock:
            self._living.discard(child)


def _kill_all(children: "set[_Child]") -> None:
    for child in tuple(children):
        child.kill()
    children.clear()


class _Child:
    """One process, and our end of its socket."""

    def __init__(self, patience_s: float) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own file
                    [
                        *(sys.executable, "-I", "-X", "utf8", str(command_reader_child.__file__)),
                        *(str(Path(command_reader_child.__file__).parents[3]), str(patience_s)),
                    ],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd=os.path.sep,
                    env={},  # it needs nothing, and keys are none of its business
                )
            except BaseException:
                ours.close()
                raise
        self._socket = ours
        self._data = bytearray()
        self._started = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def read(self, argv: tuple[str, ...], *, patience_s: float) -> "Iterator[ScriptStep]":
        """Ask for the steps of an argv; raises OSError when the time is over or the child is gone."""
        from holdfast.policy.shell.wrappers import ScriptStep

        # The first answer waits for the child's imports, too, and its alarm rings only behind these.
        deadline_s = time.monotonic() + patience_s + (0 if self._started else START_S)
        self._started = True
        self._wait_until(deadline_s)
        self._socket.sendall(framed(msgspec.msgpack.encode(argv)))
        taken = 0
        while body := self._frame(deadline_s):
            taken += len(body)
            if taken > ANSWER_BYTES_MAX:
                raise OSError("the answer is too long")
            yield msgspec.msgpack.decode(body, type=ScriptStep)

    def _frame(self, deadline_s: float) -> bytes:
        length = int.from_bytes(self._take(LENGTH_BYTES, deadline_s))
        return self._take(length, deadline_s)

    def _take(self, count: int, deadline_s: float) -> bytes:
        while len(self._data) < count:
            self._wait_until(deadline_s)
            chunk = self._socket.recv(_CHUNK_BYTES)
            if not chunk:
                raise ConnectionError("the child has ended")
            self._data += chunk
        taken = bytes(self._data[:count])
        del self._data[:count]
        return taken

    def _wait_until(self, deadline_s: float) -> None:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)

    def kill(self) -> None:
        """End the process and collect it; a second time does nothing."""
        self._process.kill()
        self._process.wait()
        self._socket.close()
