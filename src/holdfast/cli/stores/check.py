"""`holdfast store check` and `holdfast upgrade-check`: read every log as servers do, and change nothing."""

import asyncio
from collections.abc import Mapping

import apsw
from msgspec import Struct

from holdfast import __version__
from holdfast.catalog import LOG_PREFIXES
from holdfast.cli.doctor.findings import counted
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.codec import UnreadableEvent
from holdfast.config.load import BadConfiguration, Loaded, load_configuration
from holdfast.config.settings import Settings
from holdfast.config.value_formats import shown_database
from holdfast.folds.phases import IllegalEvent
from holdfast.folds.session_fold import SessionFold
from holdfast.host.data_dir import running_server
from holdfast.host.stores import shared_backend
from holdfast.interfaces.journal import JournalError, Record, StoreFailed
from holdfast.journal.sqlite.connection import open_for_reading
from holdfast.journal.sqlite.integrity import Checked, check_store
from holdfast.journal.sqlite.queries import migrations

OK, FAILED = 0, 1
REPAIR = """
How to repair the store:
- A blob: upload the same file again, or leave it. The model then gets a note instead.
- One session: restore a backup, or delete it with `holdfast sessions delete ID --now`. Others are unaffected.
- The file itself: stop the server, keep a copy of the data directory, and restore a backup with
  `holdfast restore DIR`. Without one, `holdfast store copy FROM TO` copies a store if all logs are readable.
- An event that can't be applied: was it written by a newer server? If not, report a bug.
"""


class LogReader(Struct):
    """Decodes and folds the events of logs in order, as a server does when it opens a session."""

    session_id: str = ""
    fold: SessionFold | None = None

    def fault_of(self, record: Record) -> str:
        """Apply the next event; why it can't be, or empty. The rest of such a log is only decoded."""
        if record.session_id != self.session_id:
            self.session_id = record.session_id
            self.fold = None if record.session_id.startswith(LOG_PREFIXES) else SessionFold()
        try:
            event = record.event
            if self.fold is not None:
                self.fold.apply(record.seq, event)
        except (UnreadableEvent, IllegalEvent, LookupError, ValueError, AssertionError) as error:
            self.fold = None
            return f"the event can't be applied: {type(error).__name__}: {error}"
        return ""


def check(flags: Mapping[str, object]) -> int:
    """Check the store of a configuration and say how to repair it; the exit code."""
    try:
        settings = load_configuration(flags).settings
        checked = _checked(settings)
    except (BadConfiguration, JournalError, OSError, apsw.Error) as error:
        echo_error(f"holdfast: {error}")
        return FAILED
    return _report(checked, _place(settings))


def upgrade_check(flags: Mapping[str, object]) -> int:
    """Say what this version would change about the data of another one; the exit code."""
    try:
        loaded = load_configuration(flags)
    except BadConfiguration as error:
        echo_error(f"holdfast: Holdfast {__version__} doesn't accept the configuration: {error}")
        return FAILED
    echo(f"ok    configuration: Holdfast {__version__} accepts it")
    return max(_schema(loaded), check(flags))


def _schema(loaded: Loaded) -> int:
    settings = loaded.settings
    holder = running_server(settings.data_dir)
    if holder is not None:
        echo(f"note  server: pid {holder.pid} is running; stop it before you start the new version")
    if settings.server.store:
        echo("note  schema: the first server of a new version updates the database; older ones keep running")
        return OK
    if not settings.store_path.exists():
        echo("ok    schema: there is no store yet")
        return OK
    connection = open_for_reading(settings.store_path, vfs=None)
    try:
        schema = int(connection.pragma("user_version"))
    finally:
        connection.close()
    newest = len(migrations())
    if schema > newest:
        echo(
            f"fault schema: {schema}, written by a newer Holdfast; {__version__} knows {newest}. Install "
            "the newer version, or restore a backup from before its first start"
        )
        return FAILED
    if schema < newest:
        echo(
            f"note  schema: the first start updates it from {schema} to {newest}. Older versions "
            "can't open it after that, so run `holdfast backup DIR` first"
        )
    else:
        echo(f"ok    schema: {schema}, which {__version__} doesn't change")
    return OK


def _place(settings: Settings) -> str:
    store = str(settings.server.store)
    return shown_database(store) if store else str(settings.store_path)


def _checked(settings: Settings) -> Checked:
    if settings.server.store:
        return asyncio.run(shared_backend().verify(settings, LogReader().fault_of))
    if not settings.store_path.exists():
        raise StoreFailed(f"there is no store in {settings.data_dir}")
    return check_store(settings.store_path, on_progress=_in_silence, fault_of=LogReader().fault_of)


def _report(checked: Checked, place: str) -> int:
    read = f"{counted(checked.events, 'event')} and {counted(checked.blobs, 'blob')}"
    if not checked.faults:
        echo(f"ok    store: read and applied {read} of {place}")
        return OK
    for fault in checked.faults:
        echo(f"fault store: {fault}")
    echo(REPAIR.rstrip())
    return FAILED


def _in_silence(done: int, total: int) -> None:
    del done, total
