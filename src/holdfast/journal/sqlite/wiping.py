"""Overwrites what SQLite leaves of deleted rows in its file: a little at a time, between two commits.

With `secure_delete` a deleted row is overwritten where it lay. But when a page is split its rows are copied,
and the old copies stay in the part of the page that holds nothing; and the full-text index keeps beginnings
of words as signposts. So after a purge the words are merged anew, and then the unused part of every page is
overwritten in the file itself.

That is safe because no byte that means something is touched, so that a page that was written by half is as
good as before, and because nobody else writes to the file meanwhile: all that is committed is in it, and with
the write lock held nothing comes that another process could move there.
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
# Up to so many pages the first byte of a page tells what it is; past them a page number may look the same.
PAGES_MAX = 1 << 25
_TREE_HEADERS = {2: 12, 5: 12, 10: 8, 13: 8}  # kinds of pages with rows in them: how long their header is
_FILE_HEADER = 100
_DONE_CHANGES = 2  # the full-text index says by fewer changes than this that there was nothing to merge


class Wiping:
    """One pass over the file for all that was purged before it began; `step` does the next part of it.

    `is_wanted` while there is something to do; `trouble` says why the last step could do nothing yet: a
    reader still needs the write-ahead log, or the disk refused. Used by the writer's thread, outside its
    transactions.
    """

    def __init__(self, db: apsw.Connection, path: Path, *, vfs: str | None) -> None:
        self._db = db
        self._path = path
        self._vfs = vfs or ""
        self._pass: Generator[None] | None = None
        self._is_wanted_again = False
        self.trouble: Trouble | None = None
        # A process before this one may not have come to the end of it.
        self.is_wanted = bool(db.execute(queries()["note"], {"key": "journal/wiping"}).fetchall())

    @property
    def state(self) -> WipingState:
        """How far it is, in a word."""
        return (self.trouble or "going") if self.is_wanted else "done"

    def want(self) -> None:
        """Something was purged."""
        self._is_wanted_again = self._pass is not None
        self.is_wanted = True

    def step(self) -> None:
        """Do a little; raises apsw.Error, and then the pass begins anew."""
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
        """Write the full-text index anew, so that it holds nothing of words that are gone."""
        sql = queries()
        # What is in one piece is not merged, so there is a second one.
        self._db.execute(sql["insert_signpost"])
        pages = -MERGED_PAGES_AT_ONCE  # below zero: of all pieces, however large
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
            # What is in memory still has the old bytes, and would bring them back with the next change.
            self._db.release_memory()
            yield

    def _is_plain(self, count: int) -> bool:
        """Whether each page can be told from its first byte; if not, the pass says so by failing."""
        if count >= PAGES_MAX or int(self._db.pragma("auto_vacuum")):
            raise apsw.ConstraintError("the file is too large or of another kind: run VACUUM on it")
        return True

    def _wipe(self, first: int, count: int) -> None:
        size = int(self._db.pragma("page_size"))
        # Through SQLite's own layer: closing a file of one's own would let go of SQLite's locks on it.
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
    """Where in these pages something is left that is part of no row: between the pointers and the rows."""
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
