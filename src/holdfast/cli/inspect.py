"""`holdfast inspect`: a session's log as a timeline, from the store or from a file of native lines."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdfast.codec import UnreadableEvent, decode
from holdfast.events import Event
from holdfast.interfaces import JournalError
from holdfast.journal.reader import SqliteReader
from holdfast.timeline import rendered, timeline

LINE_BYTES_MAX = 64 * 1024 * 1024


class _Seq(msgspec.Struct):
    seq: int


def inspect(name: str, *, data_dir: Path) -> int:
    """Print the timeline of a file, a session or a run; the exit code."""
    try:
        path = Path(name)
        pairs = from_file(path) if path.suffix == ".jsonl" else asyncio.run(from_store(name, data_dir))
    except (OSError, UnreadableEvent, JournalError, msgspec.MsgspecError) as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 1
    if not pairs:
        print(f"holdfast: no session, run or .jsonl file {name!r} (data in {data_dir})", file=sys.stderr)
        return 1
    print("\n".join(rendered(timeline(pairs))))
    return 0


def from_file(path: Path) -> Sequence[tuple[int, Event]]:
    """The events of a file with one native line each."""
    pairs: list[tuple[int, Event]] = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if line.strip():
            where = f"{path}, line {number}"
            pairs.append((msgspec.json.decode(line, type=_Seq).seq, decode(line, where=where)))
    return pairs


async def from_store(name: str, data_dir: Path) -> Sequence[tuple[int, Event]]:
    """The events of a session, or of the session that a run belongs to, without locking anything."""
    database = data_dir / "holdfast.db"
    if not database.exists():
        return []
    reader = SqliteReader(database)
    try:
        run = await reader.run(name)
        session_id = run.session_id if run else name
        pairs: list[tuple[int, Event]] = []
        after = 0
        while records := await reader.read(session_id, after=after):
            pairs.extend((record.seq, record.event) for record in records)
            after = records[-1].seq
        return pairs
    finally:
        await reader.close()
