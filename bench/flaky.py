"""Run the suite, or a part of it, several times on a starved machine, and list every test that ever failed.

python bench/flaky.py --rounds 10 --load 8 --seed 1 tests/page tests/runner

Each round has another random order. `--load` busy processes compete for the CPU, and test processes are
frozen for up to half a second at random moments. Failed tests are listed under their round's seed, which
repeats the order.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
FROZEN_S_MAX = 0.5
BETWEEN_S_MAX = 4.0
PASSED, FAILED = 0, 1


@contextlib.contextmanager
def hogs(count: int) -> Generator[None]:
    """Processes that use all the CPU time they get."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def descendants(pid: int) -> list[int]:
    """The processes below a process; those that end meanwhile are left out."""
    found: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, tasks.read_text().split()):
                found += [child, *descendants(child)]
    return found


def is_test_process(pid: int) -> bool:
    """Whether a process is pytest or runs tests for it; the servers and browsers that it starts do not."""
    with contextlib.suppress(OSError):
        return b"shuffled_order" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def starve(tests: subprocess.Popen[bytes], source: random.Random, over: threading.Event) -> None:
    """Freeze a random test process every now and then, until the round is over."""
    while not over.wait(source.uniform(0, BETWEEN_S_MAX)):
        workers = [pid for pid in descendants(tests.pid) if is_test_process(pid)]
        if not workers:
            continue
        victim = source.choice(workers)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGSTOP)
            over.wait(source.uniform(0, FROZEN_S_MAX))
            os.kill(victim, signal.SIGCONT)


def failures(report: Path) -> list[str]:
    """The tests that failed, from a JUnit report."""
    cases = ET.parse(report).iter("testcase")  # noqa: S314  # pytest wrote it just now
    return [
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]


def run_round(seed: int, options: argparse.Namespace) -> list[str]:
    """Run the tests once in the order of this seed; returns the failed ones."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options_of_pytest = [
            "--quiet",
            "-p",
            "shuffled_order",
            f"--order-seed={seed}",
            f"--numprocesses={options.processes}",
            f"--junitxml={report}",
        ]
        pytest = ["env", "PYTHONPATH=tests", "scripts/in-memory", ".venv/bin/pytest"]
        command = [*pytest, *options_of_pytest, *options.paths]
        with (Path(folder) / "output").open("w+b") as output, hogs(options.load):
            tests = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
            over = threading.Event()
            freezer = threading.Thread(target=starve, args=(tests, random.Random(seed), over))
            freezer.start()
            code = tests.wait()
            over.set()
            freezer.join()
            if code not in {PASSED, FAILED}:
                output.seek(0)
                sys.stdout.buffer.write(output.read())
                sys.exit(f"pytest ended with {code}")
            if options.texts and code == FAILED:
                (options.texts / f"seed-{seed}.txt").write_bytes(Path(output.name).read_bytes())
        return failures(report)


def main() -> int:
    """0 if no test ever failed, otherwise 1."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--load", type=int, default=8, help="busy processes beside the tests")
    parser.add_argument("--processes", type=int, default=4, help="test processes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--texts", type=Path, help="a folder for what pytest printed in rounds that failed")
    parser.add_argument("paths", nargs="*", help="default: the whole suite")
    options = parser.parse_args()
    ever: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.rounds):
        failed = run_round(seed, options)
        ever.update(failed)
        print(f"seed {seed}: {len(failed)} failed", *failed, sep="\n  ", flush=True)
    print(f"\n{len(ever)} tests failed in at least one of {options.rounds} rounds")
    for name, times in ever.most_common():
        print(f"{times:4} {name}")
    return int(bool(ever))


if __name__ == "__main__":
    sys.exit(main())
