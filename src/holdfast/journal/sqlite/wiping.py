"""Overwrites the remains of deleted rows in the SQLite file, a little at a time between commits.

With `secure_delete`, SQLite overwrites a deleted row in place. But when a page is split, its rows are copied
and the old copies stay in the unused part of the page. The full-text index also keeps prefixes of words in
its inner nodes. So after a purge the index is merged again, and then the unused part of every page is
overwritten directly in the file.

This is safe for two reasons. No meaningful byte is touched, so a half-written page is as good as before. And
nobody else writes to the file meanwhile: everything committed has been checkpointed into it, and while we
hold the write lock no other process can checkpoint more.
"""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import apsw

from holdfast.journal.sqlite.queries import queries

Trouble: TypeAlias = Literal["held up", "failed"]
WipingState: TypeAlias = Literal["done", "going"] | Trouble

PAGES_AT_ONCE = 1_024
MERGED_PAGES_AT_ONCE = 256
# Up to this many pages, the first byte of a page tells its type; beyond it, a page number can look the same.
PAGES_MAX = 1 << 25
_TREE_HEADERS = {2: 12, 5: 12, 10: 8, 13: 8}  # types of b-tree pages and the lengths of their headers
_FILE_HEADER = 100
_DONE_CHANGES = 2  # with fewer changes than this, the full-text index had nothing to merge


class Wiping:
    """One pass over the file for everything purged before it began; `step` does the next part.

    `is_wanted` is true while there is work left. `trouble` says why the last step could do nothing: a reader
    still needs the write-ahead log, or the disk failed. Used by the writer's thread, outside its
    transactions.
    """

    def __init__(self, db: apsw.Connection, path: Path, *, vfs: str | None) -> None:
        self._db = db
        self._path = path
        self._vfs = vfs or ""
        self._pass: Generator[None] | None = None
        self._is_wanted_again = False
        self.trouble: Trouble | None = None
        # An earlier process may not have finished its pass.
        self.is_wanted = bool(db.execute(queries()["note"], {"key": "journal/wiping"}).fetchall())

    @property
    def state(self) -> WipingState:
        """The state of the pass."""
        return (self.trouble or "going") if self.is_wanted else "done"

    def want(self) -> None:
        """Ask for a pass because something was purged."""
        self._is_wanted_again = self._pass is not None
        self.is_wanted = True

    def step(self) -> None:
        """Do the next part; raises apsw.Error, after which the pass starts over."""
        self.trouble = None
        steps = self._pass = self._pass or self._steps()
        try:
            next(steps)
        except StopIteration:
            self._pass = None
            self.is_wanted, self._is_wanted_again = self._is_wanted_again, False
        except apsw.Error as error:
            self._pass = None
            self.trouble = "held up" if isinstance(error, apsw.BusyError) else "failed"
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _steps(self) -> Generator[None]:
        yield from self._merge_words()
        yield from self._wipe_pages()
        if not self._is_wanted_again:
            self._db.execute(queries()["wiped"])

    def _merge_words(self) -> Generator[None]:
        """Rewrite the full-text index, so that it keeps nothing of deleted words."""
        sql = queries()
        # A single segment isn't merged, so add a second one.
        self._db.execute(sql["insert_signpost"])
        pages = -MERGED_PAGES_AT_ONCE  # negative: all segments, whatever their size
        while True:
            before = self._db.total_changes()
            self._db.execute(sql["merge_search"], {"pages": pages})
            if pages > 0 and self._db.total_changes() - before < _DONE_CHANGES:
                break
            pages = MERGED_PAGES_AT_ONCE
            yield
        self._db.execute(sql["delete_signpost"])

    def _wipe_pages(self) -> Generator[None]:
        first = 1
        while first <= (count := int(self._db.pragma("page_count"))):
            version = self._db.pragma("data_version")
            logged, moved = self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._db.execute("BEGIN IMMEDIATE")
            is_all_moved = logged == moved and self._db.pragma("data_version") == version
            if is_all_moved and self._is_plain(count):
                self._wipe(first, min(PAGES_AT_ONCE, count - first + 1))
                first += PAGES_AT_ONCE
            self.trouble = None if is_all_moved else "held up"
            self._db.execute("ROLLBACK")
            # Cached pages still have the old bytes and would bring them back with the next change.
            self._db.release_memory()
            yield

    def _is_plain(self, count: int) -> bool:
        """Whether the type of each page is clear from its first byte; if not, the pass fails."""
        if count >= PAGES_MAX or int(self._db.pragma("auto_vacuum")):
            raise apsw.ConstraintError("the file is too large or has another page format: run VACUUM on it")
        return True

    def _wipe(self, first: int, count: int) -> None:
        size = int(self._db.pragma("page_size"))
        # Through SQLite's own VFS: closing our own descriptor would release SQLite's locks.
        flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
        file = apsw.VFSFile(self._vfs, str(self._path.absolute()), flags)
        try:
            start = (first - 1) * size
            data = file.xRead(count * size, start)
            wiped = [*_leftovers(data, first=first, size=size)]
            for begin, end in wiped:
                file.xWrite(bytes(end - begin), start + begin)
            if wiped:
                file.xSync(apsw.SQLITE_SYNC_NORMAL)
        finally:
            file.xClose()


def _leftovers(pages: bytes, *, first: int, size: int) -> Iterator[tuple[int, int]]:
    """The byte ranges of these pages that belong to no row: between the pointers and the rows."""
    for at in range(0, len(pages), size):
        head = at + (_FILE_HEADER if first == 1 and at == 0 else 0)
        header = _TREE_HEADERS.get(pages[head])
        if header is None:
            continue
        rows = int.from_bytes(pages[head + 3 : head + 5], "big")
        begin = head + header + 2 * rows
        end = at + (int.from_bytes(pages[head + 5 : head + 7], "big") or 65_536)
        if begin < end <= at + size and pages.count(0, begin, end) < end - begin:
            yield begin, end
