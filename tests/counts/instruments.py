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
from collections import Counter
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
# These run every second or two, whatever else happens: on a busy machine, in every round of a count.
PERIODIC = {"used_files", "DirectoryLock.keep"}
PROCESSES = {"subprocess.Popen", "os.posix_spawn", "os.fork"}
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


class Counts(threading.local):
    """What one thread did."""

    def __init__(self, every: list[Counter[str]]) -> None:
        self.own: Counter[str] = Counter()
        every.append(self.own)


class Instruments:
    """Counts what this process does, from now on."""

    def __init__(self) -> None:
        self._every: list[Counter[str]] = []
        self._counts = Counts(self._every)
        sys.addaudithook(self._count_process)
        apsw.connection_hooks.append(self._count_statements)
        threading.setprofile(self._count_call)
        sys.setprofile(self._count_call)

    def _count_process(self, event: str, _: object) -> None:
        if event in PROCESSES:
            self._counts.own["processes"] += 1

    def _count_statements(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, self._count_statement)  # pyright: ignore[reportUnknownMemberType]

    def _count_statement(self, statement: Mapping[str, object]) -> None:
        word = str(statement["sql"]).split(None, 1)[0].upper()
        self._counts.own[STATEMENTS.get(word, "sql_others")] += 1

    def _count_call(self, frame: FrameType, event: str, called: object) -> None:
        if event == "call":
            code = frame.f_code
            if code.co_filename.startswith(OURS):
                self._counts.own["calls"] += 1
            elif code in CALLS and not _is_periodic(frame.f_locals.get("fn")):
                self._counts.own[CALLS[code]] += 1
        elif event == "c_call" and getattr(called, "__name__", "") in ENCODING and _is_of_msgspec(called):
            self._counts.own["encodes"] += 1

    def so_far(self) -> dict[str, int]:
        """All counts; `garbage` are objects that only the collector could free."""
        gc.collect()
        total: Counter[str] = Counter(garbage=sum(one["collected"] for one in gc.get_stats()))
        for own in list(self._every):
            total.update(own)
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


def _is_periodic(called: object) -> bool:
    """Whether a thread is asked for a periodic check; `asyncio.to_thread` wraps the function."""
    wrapped = getattr(called, "args", ())
    return bool(wrapped) and getattr(wrapped[0], "__qualname__", "") in PERIODIC


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
