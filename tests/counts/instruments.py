"""The program with counters: `python instruments.py SOCKET serve --config holdfast.toml`.

Whoever connects to the socket gets the counts so far as JSON. The file SOCKET.json has them at the end, and
SOCKET.start.json as they were before the first output.
"""

import asyncio
import atexit
import gc
import json
import socket
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from types import CodeType, FrameType

import apsw
from typing_extensions import override

import holdfast

OURS = str(Path(holdfast.__file__).parent)
# Functions of others, and what a call of each counts as.
CALLS: Mapping[CodeType, str] = {
    ThreadPoolExecutor.submit.__code__: "thread_hops",
    asyncio.create_task.__code__: "tasks",
    asyncio.TaskGroup.create_task.__code__: "tasks",
    asyncio.ensure_future.__code__: "tasks",
}
# What a server does at each beat of a clock, and for connections that were idle for too long. How often that
# falls into a piece of work depends on how busy the machine is, so nothing within these is counted.
BEATS = {
    "LoopLag.run",
    "OpenFiles.watch",
    "used_files",
    "_keep",
    "DirectoryLock.keep",
    "Commits.rest",
    "_collect_forever",
    "OrphanReaper.collect",
    "DeadlinedConnection.connection_made",
    "DeadlinedConnection.connection_lost",
}
AROUND_BEATS = {"_serve", "BackgroundTasks._keep"}  # what only awaits them; each beat goes on through it
PROCESSES = {"subprocess.Popen", "os.posix_spawn", "os.fork"}
BEGIN_OR_END: Mapping[str, int] = {"call": 1, "return": -1}
ENCODING = {"encode", "encode_into"}
STATEMENTS = {"COMMIT": "commits", "SELECT": "sql_reads", "WITH": "sql_reads"}
NAMES = (
    "calls",
    "commits",
    "encodes",
    "garbage",
    "processes",
    "sql_others",
    "sql_reads",
    "tasks",
    "thread_hops",
)


class Counts:
    """What one thread did, and in how many beats it is."""

    def __init__(self) -> None:
        self.own: Counter[str] = Counter()
        self.beats = 0


class Instruments:
    """Counts what this process does, from now on."""

    def __init__(self) -> None:
        # A `threading.local` would leave garbage when a thread ends.
        self._threads: defaultdict[int, Counts] = defaultdict(Counts)
        sys.addaudithook(self._count_process)
        apsw.connection_hooks.append(self._count_statements)
        threading.setprofile(self._count_call)
        sys.setprofile(self._count_call)

    @property
    def _counts(self) -> Counts:
        return self._threads[threading.get_ident()]

    def _count_process(self, event: str, _: object) -> None:
        if event in PROCESSES:
            self._counts.own["processes"] += 1

    def _count_statements(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, self._count_statement)  # pyright: ignore[reportUnknownMemberType]

    def _count_statement(self, statement: Mapping[str, object]) -> None:
        counts = self._counts
        if not counts.beats:
            word = str(statement["sql"]).split(None, 1)[0].upper()
            counts.own[STATEMENTS.get(word, "sql_others")] += 1

    def _count_call(self, frame: FrameType, event: str, called: object) -> None:
        counts, code = self._counts, frame.f_code
        if event in BEGIN_OR_END and code.co_qualname in BEATS and code.co_filename.startswith(OURS):
            counts.beats += BEGIN_OR_END[event]  # a coroutine also ends whenever it waits
        elif counts.beats:
            return
        elif event == "call":
            if code.co_filename.startswith(OURS):
                counts.own["calls"] += code.co_qualname not in AROUND_BEATS
            elif code in CALLS:
                counts.own[CALLS[code]] += 1
        elif event == "c_call" and getattr(called, "__name__", "") in ENCODING and _is_of_msgspec(called):
            counts.own["encodes"] += 1

    def so_far(self) -> dict[str, int]:
        """All counts; `garbage` are objects that only the collector could free."""
        gc.collect()
        total: Counter[str] = Counter(garbage=sum(one["collected"] for one in gc.get_stats()))
        for counts in list(self._threads.values()):
            total.update(counts.own)
        modules = sum(1 for name in list(sys.modules) if name.partition(".")[0] == "holdfast")
        return {**dict.fromkeys(NAMES, 0), **total, "modules": modules}

    def tell(self, path: str) -> None:
        """Answer everyone who connects."""
        sys.setprofile(None)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            listening.listen()
            while True:
                asking, _ = listening.accept()
                with asking:
                    asking.sendall(json.dumps(self.so_far()).encode())


def _is_of_msgspec(called: object) -> bool:
    owner: object = getattr(called, "__self__", None)
    return type(owner).__module__.startswith("msgspec") or getattr(owner, "__name__", "").startswith(
        "msgspec"
    )


class Output(TextIOWrapper):
    """The standard output, which reports the counts before the first text."""

    def __init__(self, report: Callable[[], object]) -> None:
        super().__init__(sys.stdout.buffer, encoding="utf-8")
        self._report: Callable[[], object] | None = report

    @override
    def write(self, text: str, /) -> int:
        report, self._report = self._report, None
        if report is not None:
            report()
        return super().write(text)


def main() -> None:
    """Run the command with counters."""
    instruments, path = Instruments(), sys.argv[1]

    def report(name: str) -> None:
        Path(name).write_text(json.dumps(instruments.so_far()), encoding="utf-8")

    atexit.register(report, f"{path}.json")
    sys.stdout = Output(partial(report, f"{path}.start.json"))
    threading.Thread(target=instruments.tell, args=(sys.argv[1],), daemon=True).start()
    from holdfast.cli.main import main as command  # its imports count

    sys.argv[:2] = ["holdfast"]
    command()


if __name__ == "__main__":
    main()
