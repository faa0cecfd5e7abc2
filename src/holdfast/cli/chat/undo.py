"""`/undo`, `/redo` and `/diff` in the chat: show, undo and redo the session's changes."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.api.changes import RunChanges, RunUndone, UndoRequest
from holdfast.cli.changes import change_lines, undone_notes
from holdfast.cli.program_name import command_line
from holdfast.client.errors import Refused
from holdfast.safe_text import safe_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.cli.chat.conversation import ChatScreen

EARLIER = "earlier"
OPTIONS = frozenset({"force", "keep-both", "keep-log"})
RUNS_LOOKED_AT = 50
DIFF_LINES_SHOWN = 200
NO_FILES = (
    f"The last run changed no files. To undo the latest run that did, with every later message, use /undo "
    f"{EARLIER}. To edit only your last message, press Esc twice."
)


class ChatUndo:
    """Undoes the newest run of the session, and redoes it."""

    def __init__(self, chat: "ChatScreen") -> None:
        self._chat = chat

    async def undo(self, how: str) -> None:
        """Undo the last run; with `earlier`, the newest one that changed a file."""
        words = how.split()
        wanted = await self._wanted("/undo", [word for word in words if word != EARLIER])
        if wanted is None:
            return
        runs = await self._shown_runs()
        if EARLIER not in words:
            runs = runs[:1]
        done = await self._first(runs, lambda run_id: self._chat.client.undo(run_id, wanted))
        if done is None:
            await self._say(NO_FILES if runs and EARLIER not in words else "Nothing to undo.")
        else:
            await self._note(done)
            await self._say(
                "Changed: " + ", ".join(map(safe_line, done.files)) + ". Use /redo to reverse this."
            )

    async def redo(self, how: str) -> None:
        """Take the newest undo of this session back, also one from before the chat was opened."""
        wanted = await self._wanted("/redo", how.split())
        if wanted is None:
            return
        chat = self._chat
        found = (await chat.client.messages(chat.session_id, limit=1)).undos if chat.session_id else ()
        undos = [each for each in found if not each.files_redone]
        if not undos:
            await self._say("Nothing to redo.")
            return
        newest = undos[-1]
        await self._note(await chat.client.redo(newest.run_id, replace(wanted, undo_id=newest.undo_id)))

    async def diff(self, _: str) -> None:
        """Show what the newest run that changed files did to them."""
        for run_id in (await self._shown_runs())[:RUNS_LOOKED_AT]:
            found = await self._chat.client.changes(run_id)
            if found.files_total:
                await self._show(found)
                return
        await self._say("No files changed in this session.")

    async def _show(self, found: RunChanges) -> None:
        lines = "\n".join(change_lines(found)).split("\n")
        style = self._chat.style
        shown = [style.line(line, _colour(line)) for line in lines[:DIFF_LINES_SHOWN]]
        if len(lines) > DIFF_LINES_SHOWN:
            left = len(lines) - DIFF_LINES_SHOWN
            more = f"… {left:,} more lines; {command_line(f'diff {found.run_id}')} shows them"
            shown.append(style.dim(more))
        await self._chat.prompt.print("".join(shown))

    async def _first(
        self, runs: Iterable[str], act: "Callable[[str], Awaitable[RunUndone]]"
    ) -> RunUndone | None:
        """Return the result for the first of these runs with something to undo or redo."""
        for run_id in runs:
            try:
                return await act(run_id)
            except Refused as error:
                if error.code not in {"nothing_to_undo", "nothing_to_redo"}:
                    raise
        return None

    async def _shown_runs(self) -> Sequence[str]:
        """The runs that are still part of the conversation, the newest first."""
        chat = self._chat
        if not chat.session_id:
            return []
        page = await chat.client.messages(chat.session_id, limit=200)
        ids = (str(entry.get("run_id") or "") for entry in reversed(page.data))
        return [run_id for run_id in dict.fromkeys(ids) if run_id]

    async def _wanted(self, command: str, words: Sequence[str]) -> UndoRequest | None:
        if not OPTIONS.issuperset(words):
            also = f", {EARLIER}" if command == "/undo" else ""
            await self._say(f"{command} takes force, keep-both or keep-log{also}, or nothing.")
            return None
        return UndoRequest(
            force="force" in words, keep_both="keep-both" in words, keep_log="keep-log" in words
        )

    async def _note(self, done: RunUndone) -> None:
        """Say what the notice on the log doesn't."""
        if notes := list(undone_notes(done)):
            await self._say("\n".join(notes))

    async def _say(self, text: str) -> None:
        await self._chat.prompt.print(self._chat.style.dim(text))


def _colour(line: str) -> str:
    if line.startswith(("+++", "---")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim" if line else "")
