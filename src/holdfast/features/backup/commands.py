"""The commands `holdfast backup` and `holdfast restore`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import apsw
import typer

from holdfast.cli.doctor.findings import counted
from holdfast.cli.options import Config, DataDir
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.config.load import BadConfiguration, load_configuration
from holdfast.features.backup.copies import BackupRefused, back_up, put_back, read_stream, write_stream
from holdfast.host.lock import DirectoryBusy
from holdfast.interfaces.journal import JournalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.config.settings import Settings
    from holdfast.journal.sqlite.integrity import Checked


STREAM = "-"


def backup(
    folder: Annotated[
        str,
        typer.Argument(metavar="DIR", help="New folder for the copy, or - to write a tar archive to stdout."),
    ],
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Copy the store and the data directory, and verify the copy. Servers can be running.

    The copy has conversations, attachments, snapshots for undo, quarantined files and the first API key, but
    not the workspaces themselves. Only you can read it. Exit codes: 0 success, 1 failure, 2 usage error.
    """

    def work(settings: "Settings") -> str:
        if folder == STREAM:
            if sys.stdout.isatty():
                raise BackupRefused("the output is a terminal; redirect it to a file or a program")
            checked = write_stream(settings, sys.stdout.buffer, on_progress=_in_silence)
            echo_error(f"Copied and verified {_amount(checked)}")
            return ""
        checked = back_up(settings, Path(folder).absolute(), on_progress=_in_silence)
        return f"Copied and verified {_amount(checked)}: {folder}"

    _finish(work, data_dir, config)


def restore(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="DIR", help="Folder that `holdfast backup` wrote, or - to read an archive from stdin."
        ),
    ],
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Replace the data of a stopped server with a backup. The replaced data is kept.

    If the store is a Postgres database, it must be empty.
    Runs that were active when the backup was made continue from that point at the next start. Exit codes: 0
    success, 1 failure, 2 usage error.
    """

    def work(settings: "Settings") -> str:
        if folder == STREAM:
            checked, old = read_stream(settings, sys.stdin.buffer, on_progress=_in_silence)
        else:
            checked, old = put_back(settings, Path(folder).absolute(), on_progress=_in_silence)
        return f"Restored and verified {_amount(checked)}. The replaced data is in {old}"

    _finish(work, data_dir, config)


def _finish(work: "Callable[[Settings], str]", data_dir: str | None, config: str | None) -> None:
    os.umask(0o077)
    try:
        settings = load_configuration({"data_dir": data_dir, "config": config}).settings
        done = work(settings)
    except (BackupRefused, BadConfiguration, DirectoryBusy, JournalError, OSError, apsw.Error) as error:
        echo_error(f"holdfast: {error}")
        raise typer.Exit(1) from error
    if done:
        echo(done)


def _amount(checked: "Checked") -> str:
    return f"{counted(checked.events, 'event')} and {counted(checked.blobs, 'blob')}"


def _in_silence(done: int, total: int) -> None:
    del done, total
