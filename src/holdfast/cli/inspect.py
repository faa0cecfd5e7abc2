"""`holdfast inspect`: a session's log as a timeline, from the store or from a file of native lines."""

import asyncio
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from holdfast.cli.attach import EXPECTED_ERRORS, FAILED, OK, report_error
from holdfast.cli.ids import LAST, resolve_run, resolve_session
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.codec import UnreadableEvent, decode
from holdfast.events import Event
from holdfast.folds.rows import run_of
from holdfast.folds.timeline import rendered, timeline
from holdfast.host.data_dir import DataDirectory, find_data_directory
from holdfast.journal.sqlite.reader import SqliteReader
from holdfast.safe_text import cut


class _Seq(msgspec.Struct):
    seq: int


def inspect(name: str, flags: Mapping[str, object]) -> int:
    """Print the timeline of a file, a session or a run; the exit code."""
    path = Path(name)
    try:
        if path.suffix == ".jsonl":
            pairs, where = from_file(path), str(path)
        else:
            directory = find_data_directory(flags)
            pairs, where = asyncio.run(_named(name, directory)), f"{name!r} (data in {directory.data_dir})"
        if pairs:
            room = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
            lines = rendered(timeline(pairs))
            echo("\n".join(cut(line, room) if room else line for line in lines))
            return OK
    except (*EXPECTED_ERRORS, UnreadableEvent, msgspec.MsgspecError) as error:
        return report_error(error)
    echo_error(f"holdfast: no session, run or .jsonl file {where}")
    return FAILED


def from_file(path: Path) -> Sequence[tuple[int, Event]]:
    """The events of a file with one native line each."""
    pairs: list[tuple[int, Event]] = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if line.strip():
            where = f"{path}, line {number}"
            pairs.append((msgspec.json.decode(line, type=_Seq).seq, decode(line, where=where)))
    return pairs


async def _named(name: str, directory: DataDirectory) -> Sequence[tuple[int, Event]]:
    """The events of the run or the session that is meant."""
    from holdfast.cli.offline_reader import OfflineReader

    async with OfflineReader(directory.settings) as reader:
        whole = await resolve_session(reader, name) if name != LAST else name
        whole = await resolve_run(reader, whole)
    return await from_store(whole, directory.data_dir)


async def from_store(name: str, data_dir: Path) -> Sequence[tuple[int, Event]]:
    """The events of a session, or those of a run, without locking anything."""
    database = data_dir / "holdfast.db"
    if not await asyncio.to_thread(database.exists):
        return []
    reader = SqliteReader(database)
    try:
        run = await reader.run(name)
        session_id = run.session_id if run else name
        pairs: list[tuple[int, Event]] = []
        after = run.first_seq - 1 if run else 0
        while records := await reader.read(session_id, after=after):
            found = ((record.seq, record.event) for record in records)
            pairs.extend((seq, event) for seq, event in found if run is None or run_of(event) == name)
            after = records[-1].seq
        return pairs
    finally:
        await reader.close()
