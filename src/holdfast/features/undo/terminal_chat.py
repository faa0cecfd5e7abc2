"""`/undo`, `/redo` and `/diff` in the terminal chat: show, undo and redo the session's changes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.cli.program_name import command_line
from holdfast.client.errors import Refused
from holdfast.features.undo.client import ChangeCalls
from holdfast.features.undo.operations import RunChanges, RunUndone, UndoRequest
from holdfast.features.undo.terminal import change_lines, undone_notes
from holdfast.safe_text import safe_line

if TYPE_CHECKING:
    from holdfast.cli.chat.conversation import ChatScreen

EARLIER = "earlier"
OPTIONS = frozenset({"force", "keep-both", "keep-log"})
RUNS_LOOKED_AT = 50
DIFF_LINES_SHOWN = 200
NO_FILES = (
    f"The last run changed no files. To undo the latest run that did, with every later message, use /undo "
    f"{EARLIER}. To edit only your last message, press Esc twice."
)


async def undo(chat: "ChatScreen", text: str) -> None:
    """Undo the last run; with `earlier`, the newest one that changed a file."""
    words = text.split()
    request = await _request(chat, "/undo", [word for word in words if word != EARLIER])
    if request is None:
        return
    runs = await _shown_runs(chat)
    if EARLIER not in words:
        runs = runs[:1]
    for run_id in runs:
        try:
            done = await ChangeCalls(chat.client).undo(run_id, request)
        except Refused as error:
            if error.code != "nothing_to_undo":
                raise
        else:
            await _print_notes(chat, done)
            await _print(
                chat, "Changed: " + ", ".join(map(safe_line, done.files)) + ". Use /redo to reverse this."
            )
            return
    await _print(chat, NO_FILES if runs and EARLIER not in words else "Nothing to undo.")


async def redo(chat: "ChatScreen", text: str) -> None:
    """Reverse the newest undo of this session, even if it's from before the chat was opened."""
    request = await _request(chat, "/redo", text.split())
    if request is None:
        return
    found = (await chat.client.messages(chat.session_id, limit=1)).undos if chat.session_id else ()
    undos = [each for each in found if not each.files_redone]
    if not undos:
        await _print(chat, "Nothing to redo.")
        return
    newest = undos[-1]
    calls = ChangeCalls(chat.client)
    await _print_notes(chat, await calls.redo(newest.run_id, replace(request, undo_id=newest.undo_id)))


async def diff(chat: "ChatScreen", _: str) -> None:
    """Show the changes of the newest run that changed files."""
    for run_id in (await _shown_runs(chat))[:RUNS_LOOKED_AT]:
        found = await ChangeCalls(chat.client).show(run_id)
        if found.files_total:
            await _print_changes(chat, found)
            return
    await _print(chat, "No files changed in this session.")


async def _print_changes(chat: "ChatScreen", found: RunChanges) -> None:
    lines = "\n".join(change_lines(found)).split("\n")
    shown = [chat.style.line(line, _colour(line)) for line in lines[:DIFF_LINES_SHOWN]]
    if len(lines) > DIFF_LINES_SHOWN:
        left = len(lines) - DIFF_LINES_SHOWN
        more = f"… {left:,} more lines; {command_line(f'diff {found.run_id}')} shows them"
        shown.append(chat.style.dim(more))
    await chat.prompt.print("".join(shown))


async def _shown_runs(chat: "ChatScreen") -> Sequence[str]:
    """The runs that are still part of the conversation, newest first."""
    if not chat.session_id:
        return []
    page = await chat.client.messages(chat.session_id, limit=200)
    ids = (str(entry.get("run_id") or "") for entry in reversed(page.data))
    return [run_id for run_id in dict.fromkeys(ids) if run_id]


async def _request(chat: "ChatScreen", command: str, words: Sequence[str]) -> UndoRequest | None:
    if not OPTIONS.issuperset(words):
        also = f", {EARLIER}" if command == "/undo" else ""
        await _print(chat, f"{command} takes force, keep-both or keep-log{also}, or nothing.")
        return None
    return UndoRequest(force="force" in words, keep_both="keep-both" in words, keep_log="keep-log" in words)


async def _print_notes(chat: "ChatScreen", done: RunUndone) -> None:
    """Print what the notice on the log doesn't say."""
    if notes := list(undone_notes(done)):
        await _print(chat, "\n".join(notes))


async def _print(chat: "ChatScreen", text: str) -> None:
    await chat.prompt.print(chat.style.dim(text))


def _colour(line: str) -> str:
    if line.startswith(("+++", "---")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim" if line else "")
