"""`holdfast memory`: what agents remember, shown, edited, rolled back and forgotten."""

import asyncio
import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from msgspec.structs import replace

from holdfast.cli.attach import FAILED, OK, Attached, with_server
from holdfast.cli.chat.history import HISTORY, ChatHistory
from holdfast.cli.ids import resolve_id, short_id
from holdfast.cli.program_name import command_line
from holdfast.cli.terminal.columns import print_columns, print_json, when
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.features.memory.bodies import MemoryShown
from holdfast.features.memory.client import MemoryCalls
from holdfast.features.memory.state import DOCUMENT_CHARS_MAX
from holdfast.safe_text import safe, safe_line

Flags: TypeAlias = Mapping[str, object]
TEXT_CHARS = 60
DECIDED: Mapping[str, str] = MappingProxyType({"accept": "Accepted", "reject": "Rejected"})
NOT_THERE = "Nothing was forgotten: this memory doesn't contain that exact text."


def place_of(workspace: str | None, chat: str | None) -> dict[str, str]:
    """The memory that a command is about: the user's, or that of a workspace or chat."""
    if chat is not None:
        return {"scope": "chat", "chat": chat}
    if workspace is None:
        return {"scope": "user"}
    return {"scope": "workspace", "workspace": str(Path(workspace).absolute())}


def place_in(one: MemoryShown) -> dict[str, str]:
    """The fields that name a memory in requests."""
    return {"scope": one.scope, "workspace": one.workspace, "chat": one.chat}


def markdown(one: MemoryShown) -> str:
    """A memory as Markdown."""
    title = "Changes to skills" if one.scope == "skills" else f"About {subject(one)}"
    notes = [f"## {name}\n\n{text}\n" for name, text in sorted(one.notes.items())]
    return "\n".join([f"# {title}\n", f"{one.document}\n" if one.document else "", *notes]).rstrip() + "\n"


def subject(one: MemoryShown) -> str:
    """Return the subject of a memory."""
    if one.scope == "user":
        return "you"
    if one.scope == "skills":
        return f"skills, learned in the chat {one.chat}" if one.chat else "skills"
    return f"the chat {one.chat}" if one.chat else one.workspace


def show(flags: Flags, only: Mapping[str, str], *, form: str) -> int:
    """Print all memories or the one that `only` names, and what agents propose to remember."""

    async def work(attached: Attached) -> int:
        found = await MemoryCalls(attached.client).list()
        if only:
            found = replace(
                found, data=tuple(one for one in found.data if place_in(one).items() >= only.items())
            )
        if form == "json":
            print_json(found)
            return OK
        echo(f"Memory is set to {found.mode}.\n")
        known = [proposal.change_id for one in found.data for proposal in one.proposals]
        for one in found.data:
            if one.document or one.notes or one.proposals:
                echo(safe(markdown(one)))
            for proposal in one.proposals:
                name = short_id(proposal.change_id, known)
                echo(f"  proposed {name}: {safe(added(proposal.before, proposal.after))}")
                why = "; ".join(proposal.because) or "every memory needs approval"
                echo(f"    why: {safe_line(proposal.reason, 200)}\n    needs approval: {safe_line(why, 300)}")
        if not any(one.document or one.notes or one.proposals for one in found.data):
            echo("No memories yet.")
        return OK

    return with_server(flags, work, works="nothing")


def added(before: str, after: str) -> str:
    """The lines that a change adds."""
    old = before.split("\n")
    return " / ".join(line for line in after.split("\n") if line not in old) or "(removes something)"


def decide(flags: Flags, ids: list[str], *, verdict: str) -> int:
    """Accept or reject proposals."""

    async def work(attached: Attached) -> int:
        memories = (await MemoryCalls(attached.client).list()).data
        known = [proposal.change_id for one in memories for proposal in one.proposals]
        meant = {resolve_id(word, known, kind="proposal") for word in ids}
        for one in memories:
            mine = [proposal for proposal in one.proposals if proposal.change_id in meant]
            if mine:
                body = {**place_in(one), verdict: [proposal.change_id for proposal in mine]}
                await MemoryCalls(attached.client).decide(body)
            for proposal in mine:
                echo(f"{DECIDED[verdict]}: {safe_line(added(proposal.before, proposal.after), 200)}")
        return OK

    return with_server(flags, work, works="nothing")


def history(flags: Flags, place: dict[str, str], *, form: str) -> int:
    """Print the changes of a memory."""

    async def work(attached: Attached) -> int:
        changes = await MemoryCalls(attached.client).history(place)
        if form == "json":
            print_json(changes)
        elif not changes:
            echo("No changes yet.")
        else:
            rows = [
                (
                    str(one.seq),
                    when(one.changed_at),
                    one.how.replace("_", " "),
                    safe_line(one.document or "document", 20),
                    safe_line(added(one.before, one.after), TEXT_CHARS),
                    safe_line(one.origin.session_id if one.origin else one.by, 40),
                )
                for one in changes
            ]
            print_columns(("SEQ", "WHEN", "HOW", "WHERE", "TEXT", "FROM"), rows)
        return OK

    return with_server(flags, work, works="nothing")


def roll_back(flags: Flags, place: dict[str, str], to_seq: int) -> int:
    """Make a memory exactly what it was after a change."""

    async def work(attached: Attached) -> int:
        after = await MemoryCalls(attached.client).roll_back({**place, "to_seq": to_seq})
        echo(safe(markdown(after)), end="")
        return OK

    return with_server(flags, work, works="nothing")


def forget(flags: Flags, place: dict[str, str], text: str, *, sessions: str) -> int:
    """Remove a memory or a text in it; `sessions` is purge if sessions that have it are to go too."""

    async def work(attached: Attached) -> int:
        gone = await MemoryCalls(attached.client).forget({**place, "text": text})
        echo("Forgotten, with its history." if gone.forgotten else NOT_THERE)
        if text and await asyncio.to_thread(_forget_typed, attached, text):
            echo("It was also removed from the chat's input history.")
        if not gone.sessions:
            return OK
        still = "still contain it, or it came from them" if gone.forgotten else "contain this text"
        echo(f"\nThese sessions {still}:")
        for one in gone.sessions:
            echo(f"  {one.session_id}  {safe_line(one.title, 60)}")
        if sessions == "purge":
            for one in gone.sessions:
                await attached.client.purge(one.session_id)
            echo("\nThey were purged.")
        else:
            echo(f"\nTo delete them permanently: {command_line('sessions delete ID --now')}")
        return OK

    return with_server(flags, work, works="nothing")


def _forget_typed(attached: Attached, text: str) -> int:
    """Remove the text from what was typed in the chat of this machine."""
    return ChatHistory(attached.directory.data_dir / HISTORY, lambda words: words).forget(text)


def export(flags: Flags, file: Path | None) -> int:
    """Write all memories as Markdown."""

    async def work(attached: Attached) -> int:
        found = await MemoryCalls(attached.client).list()
        text = "\n".join(markdown(one) for one in found.data if one.document or one.notes)
        if file is None:
            echo(safe(text), end="")
        else:
            await asyncio.to_thread(file.write_text, text, "utf-8")
        return OK

    return with_server(flags, work, works="nothing")


def edit(flags: Flags, place: dict[str, str], note: str) -> int:
    """Open a document or note in an editor, and store what is saved."""

    async def work(attached: Attached) -> int:
        found = await MemoryCalls(attached.client).list()
        wanted = (place["scope"], place.get("workspace", ""), place.get("chat", ""))
        mine = [one for one in found.data if (one.scope, one.workspace, one.chat) == wanted]
        before = (mine[0].notes.get(note, "") if note else mine[0].document) if mine else ""
        after = await asyncio.to_thread(edited_in_editor, before)
        if after is None:
            echo_error("holdfast: the editor failed, so nothing was changed")
            return FAILED
        if after.strip() == before.strip():
            echo("Nothing was changed.")
            return OK
        seen = {"seen_seq": mine[0].last_seq if mine else 0}
        await MemoryCalls(attached.client).edit({**place, "document": note, "text": after.strip(), **seen})
        echo(f"Saved ({len(after.strip())} of {DOCUMENT_CHARS_MAX} characters)." if not note else "Saved.")
        return OK

    return with_server(flags, work, works="nothing")


def edited_in_editor(text: str) -> str | None:
    """The text as a person leaves it in their editor; None if the editor fails."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"  # noqa: TID251  # this is the edge
    with tempfile.NamedTemporaryFile("w+", suffix=".md", encoding="utf-8") as file:
        file.write(f"{text}\n" if text else "")
        file.flush()
        try:
            done = subprocess.run([*shlex.split(command), file.name], check=False)  # noqa: S603  # their own editor
        except OSError:
            return None
        return Path(file.name).read_text("utf-8") if done.returncode == 0 else None
