"""Imports the program once, and forks a process of it for each order of `forked.py`."""

import gc
import importlib
import io
import os
import resource
import signal
import socket
import sys
import time

import msgspec

# What a server, a run or a command imports as it starts, but for what few of them need.
IMPORTED = (
    *("holdfast.cli.commands", "holdfast.cli.serve", "holdfast.cli.run", "holdfast.cli.run"),
    *("holdfast.cli.reader", "holdfast.cli.sessions", "holdfast.cli.runs", "holdfast.cli.approvals"),
    *("holdfast.cli.offline_reader", "holdfast.cli.attach", "holdfast.features.memory.actions"),
    *("holdfast.client.client", "holdfast.host.hidden_process"),
    *("pydantic.type_adapter", "uvicorn.lifespan.on", "uvloop"),
)
ORDER_BYTES_MAX = 150_000
PID_BYTES = 8
FILES = 3
STDERR = 2
# A child keeps ignoring these if its parent does.
INHERITED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


class Order(msgspec.Struct):
    """One program to start; its standard files travel with it."""

    arguments: list[str]
    cwd: str
    env: dict[str, str]
    ignored: list[int]
    limits: dict[int, tuple[int, int]]


def next_fork(orders: socket.socket) -> tuple[Order, list[int]] | None:
    """In each forked process, its order and its files; in the fork server, None at the end of the tests."""
    while True:
        text, files, _, _ = socket.recv_fds(orders, ORDER_BYTES_MAX, FILES)
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
            return msgspec.json.decode(text, type=Order), files
        os.waitpid(between, 0)
        orders.send(os.read(reading, PID_BYTES))
        for descriptor in (reading, writing, *files):
            os.close(descriptor)


def become(order: Order, files: list[int]) -> None:
    """Take on what a new process inherits from its parent."""
    os.setsid()
    for number in INHERITED:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in order.ignored else usual)
    for standard, descriptor in enumerate(files):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.environ.clear()  # noqa: TID251  # it is a new process's
    os.environ.update(order.env)  # noqa: TID251
    time.tzset()
    os.chdir(order.cwd)
    sys.path[0] = order.cwd
    sys.argv = order.arguments
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    sys.stdout, sys.stderr = _written(1), _written(STDERR)
    for which, most in order.limits.items():
        resource.setrlimit(which, most)


def _written(number: int) -> io.TextIOWrapper:
    raw = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
    at_once = number == STDERR or os.isatty(number)
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", line_buffering=at_once)


def serve(descriptor: int) -> None:
    """Be the fork server, and every process that it forks."""
    for module in IMPORTED:
        importlib.import_module(module)
    from holdfast.cli.main import main

    gc.collect()
    gc.freeze()
    with socket.socket(fileno=descriptor) as orders:
        mine = next_fork(orders)
    if mine is not None:
        become(*mine)
        main()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
