"""Imports the program once, and forks a process of it for each request of `forked.py`."""

import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import sys
import time
from types import FrameType
from typing import Any

from holdfast.cli.main import main

# What a server, a run or a command imports as it starts, but for what few of them need.
LOADED = (
    *("holdfast.cli.commands", "holdfast.cli.serve", "holdfast.cli.run", "holdfast.cli.piped_input"),
    *("holdfast.cli.reader", "holdfast.cli.sessions", "holdfast.cli.runs", "holdfast.cli.approvals"),
    *("holdfast.cli.offline_reader", "holdfast.cli.attach", "holdfast.cli.powers.memory"),
    *(
        "holdfast.client.client",
        "holdfast.host.hidden_process",
        "pydantic.type_adapter",
        "uvicorn.lifespan.on",
    ),
)
REQUEST_BYTES_MAX = 1 << 20
FILES = 4  # the three standard ones, and the socket on which the process id and the exit code are reported


class Forker:
    """Serves requests that arrive on a socket until the other end is closed."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._woken, self._wakes = socket.socketpair()
        self._wakes.setblocking(False)
        self._reports: dict[int, socket.socket] = {}

    def serve(self) -> dict[str, Any] | None:
        """Return the request in each fork, and None in the forker itself at the end."""
        signal.signal(signal.SIGCHLD, _wake)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        while True:
            ready, _, _ = select.select([self._requests, self._woken], [], [])
            if self._woken in ready:
                self._woken.recv(select.PIPE_BUF)
                self._report_ends()
            if self._requests not in ready:
                continue
            request, files, _, _ = socket.recv_fds(self._requests, REQUEST_BYTES_MAX, FILES)
            if not request:
                return None
            pid = os.fork()
            if pid == 0:
                self._leave(files)
                return json.loads(request)
            self._watch(pid, files)

    def _watch(self, pid: int, files: list[int]) -> None:
        *standard, report = files
        for file in standard:
            os.close(file)
        self._reports[pid] = socket.socket(fileno=report)
        self._reports[pid].send(b"%d\n" % pid)

    def _leave(self, files: list[int]) -> None:
        """In a fork: keep nothing of the forker but the standard files of the request."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in (self._requests, self._woken, self._wakes, *self._reports.values()):
            end.close()
        *standard, report = files
        os.close(report)
        for number, file in enumerate(standard):
            os.dup2(file, number)
            os.close(file)

    def _report_ends(self) -> None:
        for pid in [*self._reports]:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                with self._reports.pop(pid) as report:
                    report.send(b"%d\n" % os.waitstatus_to_exitcode(status))


def _wake(number: int, frame: FrameType | None) -> None:
    """Only the wake-up counts."""
    del number, frame


def become(request: dict[str, Any]) -> None:
    """Take over the arguments, environment, folder and files that a new process would have."""
    os.environ.clear()  # noqa: TID251  # it is a new process's
    os.environ.update(request["env"])  # noqa: TID251
    time.tzset()
    os.chdir(request["cwd"])
    sys.path[0] = request["cwd"]
    sys.argv = [request["program"], *request["arguments"]]
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    sys.stdout, sys.stderr = _written(1), _written(2)


def _written(number: int) -> io.TextIOWrapper:
    raw = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
    at_once = number == 2 or os.isatty(number)
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", line_buffering=at_once)


if __name__ == "__main__":
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()
    taken = Forker(socket.socket(fileno=int(sys.argv[1]))).serve()
    if taken is not None:
        become(taken)
        main()
