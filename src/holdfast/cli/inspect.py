"""`holdfast inspect`: a session's log as a timeline, from the store or from a file of native lines."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from holdfast.cli.attach import FAILED, OK, TROUBLE, told
from holdfast.cli.naming import LAST, run_named, session_named
from holdfast.codec import UnreadableEvent, decode
from holdfast.events import Event
from holdfast.folds.rows import run_of
from holdfast.folds.timeline import rendered, timeline
from holdfast.host.data_dir import Place, place_of
from holdfast.journal.sqlite.reader import SqliteReader


class _Seq(msgspec.Struct):
    seq: int


def inspect(name: str, flags: Mapping[str, object]) -> int:
    """Print the timeline of a file, a session or a run; the exit code."""
    path = Path(name)
    try:
        if path.suffix == ".jsonl":
            pairs, where = from_file(path), str(path)
        else:
            place = place_of(flags)
            pairs, where = asyncio.run(_named(name, place)), f"{name!r} (data in {place.data_dir})"
        if pairs:
            print("\n".join(rendered(timeline(pairs))), flush=True)
            return OK
    except (*TROUBLE, UnreadableEvent, msgspec.MsgspecError) as error:
        return told(error)
    print(f"holdfast: there is no session, run or .jsonl file {where}", file=sys.stderr)
    return FAILED


def from_file(path: Path) -> Sequence[tuple[int, Event]]:
    """The events of a file with one native line each."""
    pairs: list[tuple[int, Event]] = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if line.strip():
            where = f"{path}, line {number}"
            pairs.append((msgspec.json.decode(line, type=_Seq).seq, decode(line, where=where)))
    return pairs


async def _named(name: str, place: Place) -> Sequence[tuple[int, Event]]:
    """The events of the run or the session that is meant."""
    from holdfast.cli.stored import StoredReads

    async with StoredReads(place.settings) as reads:
        whole = await session_named(reads, name) if name != LAST else name
        whole = await run_named(reads, whole)
    return await from_store(whole, place.data_dir)


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
