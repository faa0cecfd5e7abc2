"""A pytest plugin that measures the suite: CPU and wall time per folder, fixture and test, from one run.

`scripts/suite-cost` loads it. CPU time is that of the test process and of the child processes that it has
waited for. Processes, listening sockets and SQLite connections are counted as the test process creates them.
"""

import resource
import socket
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

import apsw
import pytest

ROWS_MAX = 40
COUNTED = {"subprocess.Popen": "processes", "os.posix_spawn": "processes", "os.fork": "processes"}
COLUMNS = ("cpu", "wall", "times", "processes", "servers", "databases")

Cost = dict[str, float]
Costs = dict[str, Cost]


def _now() -> Cost:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    return {"cpu": cpu, "wall": time.perf_counter()}


class SuiteCost:
    """Gathers costs in each test process, and prints all of them in the process that the user started."""

    def __init__(self) -> None:
        self.tests: Costs = {}
        self.fixtures: Costs = {}
        self._made: Counter[str] = Counter()
        sys.addaudithook(self._count)
        apsw.connection_hooks.append(self._count_database)

    def _count(self, event: str, args: tuple[Any, ...]) -> None:
        if event in COUNTED:
            self._made[COUNTED[event]] += 1
        elif event == "socket.bind" and args[0].type == socket.SOCK_STREAM:
            self._made["servers"] += 1

    def _count_database(self, _: apsw.Connection) -> None:
        self._made["databases"] += 1

    def _begin(self) -> Callable[[], Cost]:
        began, made = _now(), self._made.copy()

        def end() -> Cost:
            taken = {name: value - began[name] for name, value in _now().items()}
            return taken | {"times": 1} | dict(self._made - made)

        return end

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure one test, with the fixtures that it is the first to use."""
        end = self._begin()
        try:
            return (yield)
        finally:
            _add(self.tests, item.nodeid, end())

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Measure the setup of one fixture."""
        end = self._begin()
        try:
            return (yield)
        finally:
            # A parameter of a test is a fixture to pytest, too.
            if not fixturedef.func.__module__.startswith("_pytest."):
                _add(self.fixtures, fixturedef.argname, end())

    def pytest_worker_result(self) -> tuple[Costs, Costs]:
        """Send a test process's costs to the process that prints them."""
        return self.tests, self.fixtures

    def pytest_worker_ended(self, result: tuple[Costs, Costs]) -> None:
        """Receive a test process's costs."""
        for mine, received in zip((self.tests, self.fixtures), result, strict=True):
            for name, cost in received.items():
                _add(mine, name, cost)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the tables."""
        folders: Costs = {}
        for name, cost in self.tests.items():
            _add(folders, name.partition("::")[0].rpartition("/")[0], cost)
        for title, costs in (("folder", folders), ("fixture", self.fixtures), ("test", self.tests)):
            terminalreporter.write_sep("=", f"cost per {title}")
            for line in _table(costs):
                terminalreporter.write_line(line)


def _add(costs: Costs, name: str, cost: Mapping[str, float]) -> None:
    known = defaultdict(float, costs.get(name, {}))
    for column, value in cost.items():
        known[column] += value
    costs[name] = dict(known)


def _table(costs: Costs) -> Iterable[str]:
    """The most expensive rows, under a row with the sum of all."""
    total: Costs = {}
    for cost in costs.values():
        _add(total, "all", cost)
    most = sorted(costs.items(), key=lambda row: -row[1]["cpu"])[:ROWS_MAX]
    yield " ".join(f"{column:>9}" for column in COLUMNS)
    for name, cost in (*total.items(), *most):
        yield " ".join(_cell(column, cost.get(column, 0)) for column in COLUMNS) + f"  {name}"


def _cell(column: str, value: float) -> str:
    return f"{value:9.1f}" if column in {"cpu", "wall"} else f"{value:9.0f}"


def pytest_configure(config: pytest.Config) -> None:
    """Measure this process."""
    config.pluginmanager.register(SuiteCost(), "suite-cost")
