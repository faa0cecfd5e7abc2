"""How long the program takes to start: `--version`, `run hi` on the demo model, `serve` to its first /health.

python bench/start.py [--times 10] [--holdfast .venv/bin/holdfast]

Each line is the median and the span of so many starts on a data directory of its own, in seconds of the clock
and of the CPU. The first start of each kind is not counted: it compiles what was not compiled yet.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True)
class Start:
    """What one start took."""

    clock_s: float
    cpu_s: float


def ended(command: list[str], environment: Mapping[str, str]) -> Start:
    """A command that does its work and ends."""
    began_s = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        cpu_s, code = _waited(process)
    if code:
        raise SystemExit(f"{' '.join(command)} ended with {code}")
    return Start(time.perf_counter() - began_s, cpu_s)


def answering(command: list[str], environment: Mapping[str, str]) -> Start:
    """A server, up to the first answer to GET /health."""
    began_s = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        greeting = process.stdout.readline()
        if " on http" not in greeting:
            raise SystemExit(f"{' '.join(command)} did not start")
        url = greeting.split(" on ")[1].split()[0]
        while not _answers(url):
            pass
        took_s = time.perf_counter() - began_s
        cpu_s = time.clock_gettime((~process.pid << 3) | 2)
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
    return Start(took_s, cpu_s)


def _waited(process: subprocess.Popen[bytes]) -> tuple[float, int]:
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime, process.returncode


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=10):  # noqa: S310  # our own server's address
            return True
    except urllib.error.URLError:
        return False


@contextmanager
def own_home() -> Generator[Mapping[str, str]]:
    """The environment of a program with an empty home and no settings, which keeps its bytecode."""
    home = Path(tempfile.mkdtemp(prefix="holdfast-start-"))
    inherited = os.environ.items()  # noqa: TID251  # a bench is an edge too
    environment = {key: value for key, value in inherited if not key.startswith(("HOLDFAST_", "PYTHON"))}
    try:
        yield environment | {"HOME": str(home)}
    finally:
        shutil.rmtree(home)


def measure(
    name: str, take: Callable[[list[str], Mapping[str, str]], Start], command: list[str], *, times: int
) -> None:
    """Take the start so often, and print what it took."""
    with own_home() as environment:
        starts = [take(command, environment) for _ in range(times + 1)][1:]
    clock = sorted(start.clock_s for start in starts)
    cpu_s = median(start.cpu_s for start in starts)
    print(f"{name:<18} {median(clock):6.3f} s   ({clock[0]:.3f} to {clock[-1]:.3f})   CPU {cpu_s:.3f} s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--holdfast", default=str(Path(sys.executable).with_name("holdfast")))
    arguments = parser.parse_args()
    program = [arguments.holdfast]
    measure("--version", ended, [*program, "--version"], times=arguments.times)
    measure("run hi", ended, [*program, "run", "hi"], times=arguments.times)
    measure("serve to /health", answering, [*program, "serve", "--port", "0"], times=arguments.times)


if __name__ == "__main__":
    main()
