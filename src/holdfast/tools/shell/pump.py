"""Reads one process's output and watches for its end, in a thread that a pipe can wake."""

import errno
import os
import select
import time
from typing import Literal, Protocol, TypeAlias

CHUNK_BYTES = 64 * 1024
_NO_PIDFD_POLL_S = 0.05

Why: TypeAlias = Literal["exited", "woken", "deadline", "enough"]


class Sink(Protocol):
    """Where output goes; called in the reading thread."""

    def take(self, data: bytes) -> bool:
        """Keep or drop it; returns True if no more is wanted."""
        ...


class Wake:
    """A pipe by which the loop wakes a thread; the loop's side never blocks."""

    def __init__(self) -> None:
        self.read_fd, self._write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        os.set_blocking(self._write_fd, False)
        self.called = False

    def call(self) -> None:
        """Wake the thread, now or as soon as it listens."""
        if not self.called and self._write_fd >= 0:
            self.called = True
            os.write(self._write_fd, b"!")

    def close(self) -> None:
        """Close the pipe; called by the loop when the thread has ended."""
        if self._write_fd >= 0:
            os.close(self.read_fd)
            os.close(self._write_fd)
            self._write_fd = -1


class Pump:
    """Moves output into a sink until the process exits, a wake-up comes, or the deadline passes."""

    def __init__(self, output_fd: int, pid: int, *, wake: Wake, sink: Sink) -> None:
        os.set_blocking(output_fd, False)
        self._output_fd = output_fd
        self._pid = pid
        self._wake_fd = wake.read_fd
        self._sink = sink
        self._pidfd = _pidfd(pid)
        self._poll = select.poll()
        self._poll.register(output_fd, select.POLLIN)
        self._exited = False
        self.at_end = False  # there are no writers left
        self.enough = False

    def until_exit(self, deadline_s: float | None) -> Why:
        """Read until one of these happens; an exit is reported once."""
        self._poll.register(self._wake_fd, select.POLLIN)
        if self._pidfd >= 0 and not self._exited:
            self._poll.register(self._pidfd, select.POLLIN)
        while True:
            left_s = None if deadline_s is None else deadline_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return "deadline"
            ready = {descriptor for descriptor, _ in self._poll.poll(self._poll_ms(left_s))}
            if self._wake_fd in ready:
                return "woken"
            if self._pidfd in ready or (self._pidfd < 0 and not self._exited and has_exited(self._pid)):
                self._note_exit()
                return "exited"
            if self._output_fd in ready:
                self._read_once()
            if self.enough:
                return "enough"

    def _note_exit(self) -> None:
        self._exited = True
        if self._pidfd >= 0:
            self._poll.unregister(self._pidfd)

    def drain(self, within_s: float) -> None:
        """Read the rest, to its end or up to a time limit: a background child may keep the output open."""
        deadline_s = time.monotonic() + within_s
        while not self.at_end:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return
            poll = select.poll()
            poll.register(self._output_fd, select.POLLIN)
            if poll.poll(left_s * 1000):
                self._read_once()

    def sip(self) -> None:
        """Read what is available, at most one pipe's capacity, without waiting."""
        for _ in range(16):
            if self.at_end or not self._read_once():
                return

    def close(self) -> None:
        """Stop watching the process; the output is closed by its opener."""
        if self._pidfd >= 0:
            os.close(self._pidfd)

    def _poll_ms(self, left_s: float | None) -> float | None:
        if self._pidfd < 0:
            left_s = _NO_PIDFD_POLL_S if left_s is None else min(left_s, _NO_PIDFD_POLL_S)
        return None if left_s is None else left_s * 1000 + 1

    def _read_once(self) -> bool:
        try:
            data = os.read(self._output_fd, CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""
        if not data:
            self.at_end = True
            self._poll.unregister(self._output_fd)
            return False
        self.enough = self._sink.take(data) or self.enough
        return True


def has_exited(pid: int) -> bool:
    """Whether a child is dead, without reaping it."""
    if hasattr(os, "waitid"):
        try:
            return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            pass  # no child of ours: adopted from an earlier server
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def _pidfd(pid: int) -> int:
    if not hasattr(os, "pidfd_open"):
        return -1
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1  # an old kernel, or a sandbox without it: has_exited is asked again and again instead
