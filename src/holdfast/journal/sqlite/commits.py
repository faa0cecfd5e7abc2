"""The writing side of the file, used by one thread: opens it, commits jobs in groups, keeps its log short."""

import logging
import time
from collections.abc import Sequence
from pathlib import Path

import apsw

from holdfast.interfaces.journal import JournalError, StoreFailed
from holdfast.journal.blobs import FileBlobs
from holdfast.journal.sqlite.commit_mark import CommitMark, arrivals
from holdfast.journal.sqlite.connection import (
    OF_THE_DISK,
    connect_for_writing,
    migrate,
    named,
    not_writable,
    open_for_reading,
    steps_to_take,
)
from holdfast.journal.sqlite.integrity import is_whole
from holdfast.journal.sqlite.jobs import WriteJob
from holdfast.journal.sqlite.rescue import NotReadable, NotSaved, describe, save
from holdfast.journal.sqlite.store_files import FileFault, StoreFiles, WalReserve
from holdfast.journal.sqlite.transaction import Transaction
from holdfast.journal.sqlite.tuning import Tuning
from holdfast.journal.sqlite.wiping import Wiping
from holdfast.values import Durability

# When the write-ahead log has more pages than this, it is checkpointed between two commits.
WAL_PAGES_MAX = 4_000

_log = logging.getLogger(__name__)


class Commits:
    """The writing connection, its transaction and its commit mark.

    `trouble` says what another program did to the files; nothing is written until it is None.
    """

    def __init__(
        self,
        path: Path,
        *,
        blobs: FileBlobs,
        durability: Durability,
        vfs: str | None,
        tuning: Tuning | None = None,
    ) -> None:
        self._path = path
        self._tuning = tuning or Tuning()
        self._blobs = blobs
        self._wal_pages = 0
        self._is_purged_text_in_log = False
        self._mark: CommitMark | None = None
        self._room: WalReserve | None = None
        self._files: StoreFiles | None = None
        self._unsaved: FileFault | None = None  # why there is data that only this process still has
        self._copy: tuple[FileFault, Path, int] | None = None  # the saved data: why, where, and its inode
        self._save_at_s = 0.0
        self._is_over = False  # the files are no longer ours to write to
        self._arrivals_kept = 0
        self.trouble: StoreFailed | None = None
        # With less than power durability, the log may lose commits that the mark has counted.
        self._is_marking = durability == "power"
        try:
            self._db = connect_for_writing(path, durability=durability, vfs=vfs, lock_s=self._tuning.lock_s)
        except apsw.Error as error:
            raise named(error, path) from error
        try:
            steps_to_take(self._db, path)  # raises if the schema is newer than ours
            self._mark = self._open_mark()
            self._mark.check(arrivals(self._db), path)
            migrate(self._db, path)
            self._transaction = Transaction(self._db, self._tuning)
            self._wiping = Wiping(self._db, path, vfs=vfs)
            self._db.set_wal_hook(self._note_wal_pages)
            self.fence = self._become_owner()
            if vfs is None:
                self._watch_files(durability)
            self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        except apsw.Error as error:
            failure = self._named(error)
            self.close()
            raise failure from error
        except BaseException:
            self.close()
            raise

    def _open_mark(self) -> CommitMark:
        path = self._path.with_name(self._path.name + "-mark")
        try:
            return CommitMark(path, renew_s=self._tuning.mark_s)
        except OSError as error:
            raise not_writable(path, error) from error

    def _become_owner(self) -> int:
        self._transaction.begin()
        fence = self._transaction.raise_fence()
        self._db.execute("COMMIT")
        self._write_mark()
        return fence

    def _watch_files(self, durability: Durability) -> None:
        page_bytes = int(self._db.pragma("page_size"))
        if durability == "power":
            self._room = WalReserve(self._path, page_bytes=page_bytes, pages_max=WAL_PAGES_MAX)
        self._files = StoreFiles(
            self._db, self._path, page_bytes=page_bytes, saw_foreign_write=self._transaction.has_foreign_write
        )
        self._files.committed(self._wal_pages)

    def look(self) -> bool:
        """Whether the files are as we left them; if not, `trouble` is set, and a save may be due."""
        if self._files is None or self._is_over:
            return not self._is_over
        try:
            fault = self._files.fault()
            if fault is not None and fault.path == self._files.db and self._is_false_alarm(fault):
                self._files.db_written()
                fault = None
        except apsw.Error as error:
            fault = FileFault("overwritten", self._files.db, str(error))
        if fault is None:
            self.trouble = None
        else:
            self._meet(fault)
        return fault is None

    def _meet_older_index(self) -> bool:
        """Whether the store seems older than our last commit, which happens if its index was replaced.

        The log still has everything, so nothing may be written to it now. The next start rebuilds the index.
        """
        if self._files is None or self._is_over:
            return False
        try:
            is_older = self._transaction.has_foreign_write() and arrivals(self._db) < self._arrivals_kept
        except apsw.Error as error:
            _log.warning("can't read %s: %s", self._path, error)
            return False
        if is_older:
            self._meet(FileFault("index", self._files.index))
        return is_older

    def _is_false_alarm(self, fault: FileFault) -> bool:
        """Whether the database was only touched: read again, it still has everything."""
        if fault.kind != "overwritten":
            return False
        connection = open_for_reading(self._path, vfs=None)
        try:
            return is_whole(connection, self._path, arrival=self._arrivals_kept)
        finally:
            connection.close()

    def _meet(self, fault: FileFault) -> None:
        what = describe(fault)
        match fault.kind:
            case "unreachable":
                self._be_in_trouble(f"{what}: check the disk; nothing was accepted")
            case "moved":
                self._be_in_trouble(
                    f"{what}. Nothing is lost, but nothing more is accepted: move it back to continue, "
                    f"or restart it with --data-dir {fault.detail}"
                )
            case "index":
                self._is_over = True
                self._be_in_trouble(
                    f"{what}. Nothing is lost, but nothing more is accepted: restart Holdfast"
                )
            case "removed" | "replaced" | "overwritten":
                self._is_over, self._unsaved = True, fault
                self._be_in_trouble(
                    f"{what}. Nothing more is accepted; Holdfast is saving what was accepted before"
                )

    def _be_in_trouble(self, text: str) -> None:
        if self.trouble is None or str(self.trouble) != text:
            _log.error("%s", text)
            self.trouble = StoreFailed(text)

    @property
    def is_save_due(self) -> bool:
        """Whether some data is only in this process and it is time to save it."""
        return self._unsaved is not None and time.monotonic() >= self._save_at_s

    def save(self) -> None:
        """Write what the open files contain to a new file; `trouble` says how that went."""
        assert self._files is not None, "only a watched store is saved"
        assert self._unsaved is not None, "all is saved"
        what = describe(self._unsaved)
        try:
            saved = save(self._db, self._files, arrival=self._arrivals_kept)
        except NotReadable:
            self._unsaved = None
            self._be_in_trouble(
                f"{what}. Some of what was accepted before can no longer be read. Nothing more is "
                "accepted: stop Holdfast and restore a backup"
            )
        except NotSaved as error:
            self._save_at_s = time.monotonic() + self._tuning.save_again_s
            self._be_in_trouble(
                f"{what}. Nothing more is accepted. What was accepted before is only in this process: "
                f"it can't be saved yet ({error}). Don't stop Holdfast; it keeps trying"
            )
        else:
            self._copy, self._unsaved = (self._unsaved, saved.path, _inode(saved.path)), None
            if self._mark is not None:
                self._mark.renew()
            advice = (
                "restart Holdfast"
                if saved.is_in_place
                else f"stop Holdfast, move that file to {self._files.db}, and start it again"
            )
            self._be_in_trouble(
                f"{what}. Nothing more is accepted. Everything that was accepted before is saved in "
                f"{saved.path}: {advice}"
            )

    def _notice_lost_copy(self) -> None:
        """Save again what a program removed that was still removing files when it was saved."""
        if self._copy is not None and _inode(self._copy[1]) != self._copy[2]:
            self._unsaved, self._copy = self._copy[0], None

    def saw_foreign_write(self) -> bool:
        """Whether another process has written to the file since the last call."""
        met, self._transaction.saw_foreign_write = self._transaction.saw_foreign_write, False
        return met

    def write(self, jobs: Sequence[WriteJob]) -> None:
        """Commit all jobs together, or give each its error; none is half written."""
        error = self._tried(jobs) if self.look() else self.trouble
        if error is None:
            return
        if len(jobs) > 1 and not isinstance(error, OF_THE_DISK):
            # Something is wrong with one of them, and the others must not be affected.
            for job in jobs:
                self.write([job])
            return
        failure = self._named(error) if isinstance(error, apsw.Error) else error
        for job in jobs:
            job.error = failure

    def _tried(self, jobs: Sequence[WriteJob]) -> Exception | None:
        transaction = self._transaction
        try:
            version = transaction.version
            transaction.begin()
            if transaction.version != version and self._files is not None:
                self._files.unsure()  # another process may have restarted the log before we got the lock
            if transaction.arrivals < self._arrivals_kept and self._files is not None:
                self._meet(FileFault("index", self._files.index))
                assert self.trouble is not None, "it was just said"
                raise self.trouble  # undone like any other failure
            for job in jobs:
                job.result, job.error = None, None
                try:
                    job.result = job.work(transaction)
                except JournalError as refused:
                    job.error = refused
            if not transaction.is_dirty:
                transaction.forgo()
                return None
            transaction.flush()
            if self._room is not None:
                self._room.make(self._wal_pages)
            self._db.execute("COMMIT")
        except Exception as error:  # noqa: BLE001  # given to every job in the commit
            self._undo(error)
            return error
        self._write_mark()
        if transaction.blobs_named:
            self._blobs.named(transaction.blobs_named)
        if transaction.has_purged:
            self._drop_purged(transaction)
        return None

    def _undo(self, error: Exception) -> None:
        if self._files is not None:
            self._files.unsure()
        try:
            self._transaction.roll_back()
            if isinstance(error, apsw.IOError):
                self._overwrite_refused_commit()
        except apsw.Error as worse:
            error.add_note(f"undoing it failed too: {worse}")
            _log.warning("could not undo a failed commit of %s: %s", self._path, worse)

    def _overwrite_refused_commit(self) -> None:
        """Overwrite a commit whose fsync failed: it is complete in the log, and a restart would find it."""
        self._transaction.begin()
        self._transaction.count()
        self._db.execute("COMMIT")

    def _write_mark(self) -> None:
        self._arrivals_kept = self._transaction.arrivals
        if self._mark is not None and self._is_marking:
            self._mark.keep(self._transaction.arrivals)

    def _drop_purged(self, transaction: Transaction) -> None:
        self._is_purged_text_in_log = True
        for name in transaction.blobs_purged:
            try:
                self._blobs.drop(name, transaction.is_blob_named)
            except (OSError, apsw.Error) as error:
                _log.warning("blob %s of a purged session could not be removed: %s", name, error)
        self._wiping.want()

    def rest(self) -> None:
        """Check the files while there is nothing to write."""
        if self.look() and not self._meet_older_index() and self._mark is not None:
            self._mark.renew()

    def tidy(self) -> None:
        """Do some of the work that a purge left, or checkpoint a long write-ahead log."""
        if not self._is_untidy:
            return
        if not self.look():
            self._transaction.wiping = "failed"
        elif self._wiping.is_wanted:
            self._wipe()
        elif self._is_purged_text_in_log:
            self._wipe_log()
        else:
            self._move_log()

    @property
    def _is_untidy(self) -> bool:
        return (
            self._wiping.is_wanted
            or self._is_purged_text_in_log
            or self._wal_pages >= WAL_PAGES_MAX
            or self.trouble is not None
        )

    def _move_log(self) -> None:
        try:
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.BusyError:
            _log.debug("another process is checkpointing %s", self._path)
        except apsw.Error as error:
            _log.warning("can't checkpoint the write-ahead log of %s: %s", self._path, error)
        self._note_db_written()

    def _note_db_written(self) -> None:
        if self._files is not None:
            self._files.db_written()

    def _wipe(self) -> None:
        try:
            self._wiping.step()
        except apsw.Error as error:
            _log.warning("fragments of purged text may still be in %s: %s", self._path, error)
            if self._files is not None:
                self._files.unsure()
        self._note_db_written()
        if not self._wiping.is_wanted:
            self._wipe_log()
        self._transaction.wiping = self._wiping.state

    def _wipe_log(self) -> None:
        """Empty the log, which still contains purged text; a reader may delay this until a later commit."""
        try:
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error as error:
            _log.warning("purged text is still in the write-ahead log of %s: %s", self._path, error)
        else:
            self._is_purged_text_in_log = False
            if self._room is not None:
                self._room.forget()
            if self._files is not None:
                self._files.unsure()
        self._note_db_written()

    def _note_wal_pages(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        if self._files is not None:
            self._files.committed(pages)
        return apsw.SQLITE_OK

    def _named(self, error: apsw.Error) -> JournalError:
        failure = named(error, self._path, system_errno=self._db.system_errno)
        failure.__cause__ = error
        return failure

    def close(self) -> None:
        """Close the file; whatever can't be checkpointed now stays safely in the log."""
        if self._files is not None and (not self.look() or self._meet_older_index()):
            self._notice_lost_copy()
            if self._unsaved is not None:
                self.save()
            # Closing would remove files by name, and those names may now belong to someone else's files.
            self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if self._mark is not None:
            if self.trouble is None:
                self._mark.renew()
            self._mark.close()
        if self._room is not None:
            self._room.close()
        if self._files is not None:
            self._files.close()
        try:
            self._db.close()
        except apsw.Error as error:
            _log.warning("closing %s: %s", self._path, error)
            self._db.close(True)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0
