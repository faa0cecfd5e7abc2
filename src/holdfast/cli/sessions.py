"""`holdfast sessions`: list, find, read, export and delete conversations."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from holdfast.api.sessions import SessionShown
from holdfast.cli.attach import FAILED, OK, Attached, with_reader, with_server
from holdfast.cli.ids import resolve_session
from holdfast.cli.reader import PausedSession, Reader
from holdfast.cli.terminal.columns import print_columns, print_json, when
from holdfast.cli.terminal.output import echo, echo_colored, echo_exactly
from holdfast.safe_text import safe, safe_line

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
