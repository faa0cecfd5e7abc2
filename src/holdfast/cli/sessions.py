"""`holdfast sessions`: list, find, read, export and delete conversations.

`holdfast inspect`: a session's log as a timeline, from the store or from a file of native lines.

`holdfast nodes`: the servers that share a store.
"""

import asyncio
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from holdfast.api.sessions import SessionShown
from holdfast.cli.attach import (
    EXPECTED_ERRORS,
    FAILED,
    OK,
    Attached,
    report_error,
    with_reader,
    with_server,
)
from holdfast.cli.ids import LAST, resolve_run, resolve_session
from holdfast.cli.reader import PausedSession, Reader
from holdfast.cli.terminal.columns import print_columns, print_json, when
from holdfast.cli.terminal.output import echo, echo_colored, echo_error, echo_exactly
from holdfast.codec import UnreadableEvent, decode
from holdfast.events import Event
from holdfast.folds.rows import run_of
from holdfast.folds.timeline import rendered, timeline
from holdfast.host.data_dir import DataDirectory, find_data_directory
from holdfast.journal.sqlite.reader import SqliteReader
from holdfast.safe_text import cut, safe, safe_line

ENTRIES_MAX = 500


def list_sessions(flags: Mapping[str, object], *, words: str, archived: str, limit: int, form: str) -> int:
    """Print sessions, newest first, or those in which the words are found."""

    async def work(reader: Reader) -> int:
        children = "" if words else "true"
        page = await reader.sessions(words=words, limit=limit, archived=archived, children=children)
        if form == "json":
            print_json(page.data)
        elif words and not page.data:
            echo("No matches.")
        elif words:
            print_columns(("SESSION", "UPDATED", "FOUND"), [_hit(one) for one in page.data])
        else:
            print_columns(
                ("SESSION", "UPDATED", "MESSAGES", "STATE", "TITLE"),
                [_row(one, depth) for one, depth in nested(page.data)],
            )
        return OK

    return with_reader(flags, work)


def show_session(flags: Mapping[str, object], session_id: str, *, limit: int, form: str) -> int:
    """Print the end of a conversation."""

    async def work(reader: Reader) -> int:
        page = await reader.messages(await resolve_session(reader, session_id), limit=min(limit, ENTRIES_MAX))
        if form == "json":
            print_json(page)
            return OK
        if page.has_more:
            echo("… (use --limit to see more)")
        if sys.stdout.isatty():
            from holdfast.cli.chat.entries import entry_text
            from holdfast.cli.terminal.style import Style

            style = Style()
            echo_colored("".join(entry_text(style, one) for one in page.data))
        else:
            echo("\n\n".join(text for one in page.data if (text := _plain(one))))
        for mark in page.marks.values():
            echo(f"({safe_line(mark)})")
        return OK

    return with_reader(flags, work)


def export_session(
    flags: Mapping[str, object], session_id: str, *, form: Literal["json", "md", "html"], output: str
) -> int:
    """Write a conversation to a file, or to the standard output."""

    async def work(reader: Reader) -> int:
        data = await reader.export(await resolve_session(reader, session_id), form=form)
        if output:
            Path(output).write_bytes(data)  # noqa: ASYNC240  # nothing else runs here
        else:
            text = data.decode()
            echo_exactly(text if text.endswith("\n") else f"{text}\n", sys.stdout)
        return OK

    return with_reader(flags, work)


def delete_session(flags: Mapping[str, object], session_id: str, *, how: Literal["soon", "now"]) -> int:
    """Delete a conversation immediately, or with a minute to undelete it."""
    found: list[str] = []

    async def find(reader: Reader) -> int:
        found.append(await resolve_session(reader, session_id))
        return OK

    async def work(attached: Attached) -> int:
        if how == "now":
            await attached.client.purge(found[0])
            echo("Deleted.")
        else:
            await attached.client.delete(found[0])
            echo("Deleted. You can undo this on the web page for one minute.")
        return OK

    if (code := with_reader(flags, find)) != OK:
        return code
    if how == "now" and sys.stdin.isatty():
        typed = input(f"Delete {safe_line(found[0])} permanently? Type yes: ")
        if typed.strip().lower() != "yes":
            echo("Nothing was deleted.")
            return FAILED
    return with_server(flags, work, works="nothing")


def move_session(flags: Mapping[str, object], session_id: str) -> int:
    """Move a session off a dead server."""

    async def work(attached: Attached) -> int:
        await attached.client.move(await resolve_session(attached.client, session_id))
        echo("Moved. A running server continues the session. Its files might differ.")
        return OK

    return with_server(flags, work, works="nothing")


def nested(rows: Sequence[SessionShown]) -> list[tuple[SessionShown, int]]:
    """The sessions with their depth, each sub-agent under its parent, or last if that isn't listed."""
    below: dict[str, list[SessionShown]] = {}
    for row in rows:
        below.setdefault(row.parent_session_id, []).append(row)

    def with_own(row: SessionShown, depth: int) -> list[tuple[SessionShown, int]]:
        own = [found for child in below.pop(row.id, []) for found in with_own(child, depth + 1)]
        return [(row, depth), *own]

    found = [one for row in below.pop("", []) for one in with_own(row, 0)]
    while below:
        known = {row.id for rows in below.values() for row in rows}
        parent_id = next((id_ for id_ in below if id_ not in known), next(iter(below)))
        found += [one for row in below.pop(parent_id) for one in with_own(row, 1)]
    return found


def _row(one: SessionShown, depth: int) -> tuple[str, ...]:
    about = (f"└{'─' * (depth - 1)} " if depth else "") + (one.title or one.preview)
    return (one.session_id, when(one.updated_at), str(one.message_count), _state(one), about)


def _state(one: SessionShown) -> str:
    if one.open_asks:
        return "waiting for you"
    if isinstance(one, PausedSession):
        return "paused"
    return "working" if one.open_runs else "-"


def _hit(one: SessionShown) -> tuple[str, ...]:
    return (one.session_id, when(one.updated_at), one.hit.passage if one.hit else one.title)


def _plain(entry: dict[str, Any]) -> str:
    match entry.get("kind"):
        case "person":
            return f"> {safe(str(entry.get('content', '')))}"
        case "text":
            return safe(str(entry.get("content", ""))).strip()
        case "tool":
            return f"[{safe_line(str(entry.get('name', '')))}: {entry.get('ending') or entry.get('state')}]"
        case "ending" if entry.get("outcome") != "completed":
            return f"({safe_line(str(entry.get('words', '')))})"
        case _:
            return ""


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
