"""A pytest plugin with `-n`: the tests are imported once, and forks of that process run whole files.

Importing all tests takes six seconds of CPU. A fork costs a few milliseconds and shares the memory. The tests
of a file stay together, because they share servers. Files are handed out in the order of the tests. A worker
that ends in the middle of a test fails that test; a new worker runs the others of its file.
"""

import atexit
import os
import signal
import sys
import threading
import traceback
from collections import deque
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import wait
from typing import Any, TypeAlias

import pytest
from _pytest.runner import runtestprotocol

File: TypeAlias = list[int]  # the numbers of its tests
Link: TypeAlias = Any  # an end of a pipe; its stub is that of Windows

# What a worker asks for or reports; the second part is a number of a test, a report, or a plugin's result.
NEXT, BEGUN, REPORT, RESULT, ENDED = "next", "begun", "report", "result", "ended"


class Hooks:
    """What a plugin can add to a worker."""

    @pytest.hookspec(firstresult=True)
    def pytest_worker_result(self) -> object:
        """Return something for the process that started the workers, before this worker ends."""

    @pytest.hookspec
    def pytest_worker_ended(self, result: object) -> None:
        """Take the result of one worker."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the number of workers."""
    group = parser.getgroup("workers")
    group._addoption("-n", "--numprocesses", type=int, default=0, help="how many workers run the tests")  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hooks of workers."""
    pluginmanager.add_hookspecs(Hooks)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in workers, if `-n` says so."""
    options = session.config.option
    if not options.numprocesses or options.collectonly or session.testsfailed:
        return None
    Workers(session).run(options.numprocesses)
    return True


@dataclass(eq=False)
class Worker:
    """One fork, as the process that started it sees it."""

    pid: int
    link: Link
    left: deque[int] = field(default_factory=deque[int])  # the tests it was given and has not ended

    @property
    def workerinfo(self) -> dict[str, object]:
        """What pytest prints above a failure."""
        version = sys.version_info
        return {
            "id": self.pid,
            "sysplatform": sys.platform,
            "version_info": version,
            "executable": sys.executable,
        }


class Workers:
    """Hands out files, and passes on the reports."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        numbered = enumerate(session.items)
        files = groupby(numbered, key=lambda one: one[1].path)
        self._files = deque([number for number, _ in tests] for _, tests in files)
        self._workers: dict[Link, Worker] = {}
        # Each worker makes its folders in this one, which this process deletes.
        config: Any = session.config
        config._tmp_path_factory.getbasetemp()  # noqa: SLF001

    def run(self, count: int) -> None:
        """Run all tests; raises what the usual loop raises if it is to stop."""
        try:
            for _ in range(min(count, len(self._files))):
                self._start()
            while self._workers:
                for link in wait(list(self._workers)):
                    self._receive(self._workers[link])
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                if self._session.shouldstop:
                    raise self._session.Interrupted(self._session.shouldstop)
        finally:
            self._end()

    def _start(self) -> None:
        assert threading.active_count() == 1, "a fork would lack the other threads"
        ours, theirs = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            for link in (ours, *self._workers):
                link.close()
            _work(self._session, theirs)
        theirs.close()
        self._workers[ours] = Worker(pid, ours)

    def _receive(self, worker: Worker) -> None:
        hook = self._session.config.hook
        try:
            kind, value = worker.link.recv()
        except EOFError:
            kind, value = ENDED, None
        if kind == ENDED:
            self._ended(worker)
        elif kind == NEXT:
            file = self._files.popleft() if self._files else []
            worker.left.extend(file)
            worker.link.send(file)
        elif kind == BEGUN:
            while worker.left[0] != value:
                worker.left.popleft()
        elif kind == REPORT:
            report = hook.pytest_report_from_serializable(config=self._session.config, data=value)
            report.node = worker  # so that the terminal shows no file names, which would alternate
            hook.pytest_runtest_logreport(report=report)
        else:
            worker.left.clear()
            hook.pytest_worker_ended(result=value)

    def _ended(self, worker: Worker) -> None:
        worker.link.close()
        del self._workers[worker.link]
        _, status = os.waitpid(worker.pid, 0)
        if not worker.left:
            return
        crashed = self._session.items[worker.left.popleft()]
        code = os.waitstatus_to_exitcode(status)
        report = pytest.TestReport(
            nodeid=crashed.nodeid,
            location=crashed.location,
            keywords={},
            outcome="failed",
            longrepr=f"the worker ended with {code} while running {crashed.nodeid}",
            when="call",
        )
        self._session.config.hook.pytest_runtest_logreport(report=report)
        if worker.left:
            self._files.appendleft(list(worker.left))
        self._start()

    def _end(self) -> None:
        for worker in self._workers.values():
            os.kill(worker.pid, signal.SIGTERM)
            os.waitpid(worker.pid, 0)


class InWorker:
    """Sends reports instead of showing them."""

    def __init__(self, link: Link) -> None:
        self._link = link

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run one test; other plugins' wrappers are around this."""
        config = item.config
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            data = config.hook.pytest_report_to_serializable(config=config, report=report)
            self._link.send((REPORT, data))
        return True


def _work(session: pytest.Session, link: Link) -> None:
    """Be a worker."""
    code = 1
    try:
        config = session.config
        capturing: Any = config.pluginmanager.get_plugin("capturemanager")
        # The files that output goes to are another worker's, too.
        capturing.stop_global_capturing()
        capturing.start_global_capturing()
        config.pluginmanager.register(InWorker(link))
        _run_files(session, link)
        link.send((RESULT, config.hook.pytest_worker_result()))
        code = 0
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass  # the run has ended early
    except BaseException:  # noqa: BLE001  # the process ends here, whatever it was
        traceback.print_exc(file=sys.__stderr__)
    atexit._run_exitfuncs()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # os._exit leaves them out
    os._exit(code)


def _run_files(session: pytest.Session, link: Link) -> None:
    def next_file() -> File:
        link.send((NEXT, None))
        return link.recv()

    left = deque(next_file())
    while left:
        number = left.popleft()
        # The last test of a file also ends the fixtures that the next file does without.
        left.extend([] if left else next_file())
        following = session.items[left[0]] if left else None
        link.send((BEGUN, number))
        session.config.hook.pytest_runtest_protocol(item=session.items[number], nextitem=following)
