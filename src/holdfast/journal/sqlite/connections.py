"""The connections that read a store: opened on demand, one for each thread that reads at the same time."""

import logging
import os
import queue
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw

from holdfast.interfaces.journal import StoreFailed
from holdfast.journal.sqlite.connection import open_for_reading, open_frozen, steps_to_take

_log = logging.getLogger(__name__)


class Connections:
    """Reading connections to one file.

    If another file takes its name, the open connections are shared instead of opening more, because they can
    still read the old contents. Used by the reading threads, except for `thaw` and `close`.
    """

    def __init__(self, path: Path, *, vfs: str | None) -> None:
        self._path = path
        self._vfs = vfs
        self._free: queue.LifoQueue[apsw.Connection] = queue.LifoQueue()
        self._open: set[apsw.Connection] = set()
        self._frozen: set[apsw.Connection] = set()
        self._first: os.stat_result | None = None  # of the file when it was first opened
        self._changing = threading.Lock()

    @contextmanager
    def one(self) -> Generator[apsw.Connection]:
        """A connection for exclusive use."""
        connection = self._taken()
        try:
            yield connection
        finally:
            with self._changing:
                is_current = connection in self._open
                if is_current:
                    self._free.put(connection)
            if not is_current:
                connection.close()

    def _taken(self) -> apsw.Connection:
        try:
            return self._free.get_nowait()
        except queue.Empty:
            pass
        if self._open and self._is_other_file():
            return self._free.get()
        try:
            return self._opened()
        except apsw.CantOpenError:
            # If no more files can be opened, readers take turns.
            if not self._open:
                raise
            return self._free.get()

    def _is_other_file(self) -> bool:
        assert self._first is not None, "something was opened"
        try:
            return not os.path.samestat(self._first, self._path.stat())
        except OSError:
            return True

    def _opened(self) -> apsw.Connection:
        connection = self._connected()
        with self._changing:
            self._open.add(connection)
        return connection

    def _connected(self) -> apsw.Connection:
        connection: apsw.Connection | None = None
        try:
            connection = open_for_reading(self._path, vfs=self._vfs)
            self._check(connection)
        except (apsw.FullError, apsw.IOError, apsw.CantOpenError) as error:
            if connection is not None:
                connection.close()
            if not self._has_no_log():
                raise
            # SQLite needs two more files to read this one, and there is no space for them.
            _log.info("reading %s without a write-ahead log: %s", self._path, error)
            connection = open_frozen(self._path)
            self._check(connection)
            with self._changing:
                self._frozen.add(connection)
        return connection

    def _check(self, connection: apsw.Connection) -> None:
        try:
            is_older = bool(steps_to_take(connection, self._path))
        except BaseException:
            connection.close()
            raise
        if is_older:
            connection.close()
            raise StoreFailed(
                f"{self._path} was written by an older Holdfast: start `holdfast serve` once to "
                "bring it up to date"
            )
        try:
            self._first = self._first or self._path.stat()
        except OSError as error:
            connection.close()
            raise StoreFailed(
                f"{self._path} went away while it was opened ({error.strerror}): check the disk"
            ) from error

    def _has_no_log(self) -> bool:
        """Whether the whole store is in its main file."""
        if self._vfs is not None:
            return False
        log = self._path.with_name(f"{self._path.name}-wal")
        try:
            return self._path.stat().st_size > 0 and (not log.exists() or not log.stat().st_size)
        except OSError:
            return False

    def thaw(self) -> None:
        """Reopen connections that ignore the write-ahead log: from now on the file is written to."""
        with self._changing:
            self._open -= self._frozen
            self._frozen.clear()
            free: list[apsw.Connection] = []
            while not self._free.empty():
                free.append(self._free.get_nowait())
            for connection in free:
                if connection in self._open:
                    self._free.put(connection)
                else:
                    connection.close()

    def close(self) -> None:
        """Close the file when nobody reads any more."""
        while self._open:
            self._open.pop().close()
