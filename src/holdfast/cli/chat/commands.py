"""The slash commands of the chat."""

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.api.sessions import SessionShown
from holdfast.cli.chat.entries import person_text
from holdfast.safe_text import safe_line

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from holdfast.cli.chat.conversation import ChatScreen


COMMANDS = (
    ("/help", "list the commands"),
    ("/stop", "stop the run"),
    ("/steer", "TEXT: message the agent while it works (or just type)"),
    ("/queue", "TEXT: send after the run; alone, show the queue; resume, pause or clear"),
    ("/retry", "answer the last message again"),
    ("/model", "NAME: use it for the next messages; alone, list the models"),
    ("/sessions", "ID: switch to a session; alone, list the newest"),
    ("/new", "start a new session"),
    ("/fork", "continue in a copy of this session"),
    ("/export", "FILE: save the conversation as Markdown"),
    ("/exit", "leave (or press Ctrl-D)"),
)
SESSIONS_SHOWN = 15


class Commands:
    """What each of them does."""

    def __init__(self, chat: "ChatScreen") -> None:
        self._chat = chat
        self._known: Mapping[str, Callable[[str], Awaitable[None]]] = {
            "/help": self._help,
            "/stop": self._stop,
            "/steer": self._steer,
            "/queue": self._queue,
            "/retry": self._retry,
            "/model": self._model,
            "/sessions": self._sessions,
            "/new": self._new,
            "/fork": self._fork,
            "/export": self._export,
        }

    async def take(self, line: str) -> bool:
        """Do what the line says; False if that is to leave."""
        word, _, rest = line.partition(" ")
        if word in {"/exit", "/quit"}:
            return False
        meant = [word] if word in self._known else [name for name, _ in COMMANDS if name.startswith(word)]
        if not (meant in (["/steer"], ["/queue"]) and _is_message(rest)):
            await self._chat.prompt.print(person_text(self._chat.style, line))
        if len(meant) != 1:
            what = f"Which one: {', '.join(meant)}?" if meant else f"Unknown command: {safe_line(word, 40)}."
            await self._say(f"{what} /help lists the commands.")
        elif meant == ["/exit"]:
            return False
        else:
            await self._known[meant[0]](rest.strip())
        return True

    async def _say(self, text: str) -> None:
        await self._chat.prompt.print(self._chat.style.dim(text))

    async def _help(self, _: str) -> None:
        style = self._chat.style
        width = max(len(name) for name, _ in COMMANDS) + 2
        lines = [style.line(f"{name:<{width}}{about}", "dim", hang=width) for name, about in COMMANDS]
        keys = (
            "Enter sends, Esc Enter adds a line, Tab completes. Ctrl-C stops the run, twice leaves the chat."
        )
        busy = "The agent reads what you type while it works at its next step."
        await self._chat.prompt.print("".join([*lines, "\n", style.dim(keys), style.dim(busy)]))

    async def _stop(self, _: str) -> None:
        await self._chat.stop()

    async def _steer(self, text: str) -> None:
        if not text:
            await self._say("Add a message: /steer use the other file")
        else:
            await self._chat.send(text)

    async def _queue(self, text: str) -> None:
        chat = self._chat
        if _is_message(text):
            await chat.send(text, when_busy="queue")
            return
        if not chat.session_id:
            await self._say("The queue is empty.")
            return
        if text == "resume" or text == "pause" or text == "clear":  # noqa: PLR1714  # a type checker reads this
            shown = await chat.client.change_queue(chat.session_id, text)
        else:
            shown = await chat.client.queued(chat.session_id)
        lines = [f"{number}. {safe_line(one.text, 100)}" for number, one in enumerate(shown.data, 1)]
        state = "The queue is paused. Use /queue resume or /queue clear." if shown.paused else ""
        await self._say("\n".join([*(lines or ["The queue is empty."]), *([state] if state else [])]))

    async def _retry(self, _: str) -> None:
        chat = self._chat
        if not chat.renderer.last_run:
            await self._say("There is nothing to retry.")
        elif chat.renderer.run_id:
            await self._say("A run is in progress. Stop it first with /stop.")
        else:
            await chat.client.retry(chat.renderer.last_run, session_id=chat.session_id)

    async def _model(self, name: str) -> None:
        chat = self._chat
        if name:
            chat.model = name
            await self._say(f"The next messages go to {safe_line(name, 80)}.")
            return
        lines = [
            f"{safe_line(one.name)}  {safe_line(one.model)}{'  (waiting)' if one.gated_ms else ''}"
            for one in await chat.client.targets()
        ]
        await self._say("\n".join([*lines, "Use /model NAME to choose one."]))

    async def _sessions(self, session_id: str) -> None:
        chat = self._chat
        if session_id:
            await chat.open(session_id)
            return
        page = await chat.client.sessions(limit=SESSIONS_SHOWN)
        chat.known = [(one.session_id, _about(one, 50)) for one in page.data]
        lines = [f"{one.session_id}  {_about(one, chat.style.width() - 40)}" for one in page.data]
        await self._say(
            "\n".join([*(lines or ["There are no sessions yet."]), "Use /sessions ID to open one."])
        )

    async def _new(self, _: str) -> None:
        await self._chat.close_session()
        await self._say("Your next message starts a new session.")

    async def _fork(self, _: str) -> None:
        chat = self._chat
        if not chat.session_id:
            await self._say("There is nothing to copy yet.")
            return
        forked = await chat.client.fork(chat.session_id)
        await chat.close_session()
        await chat.open(forked.session_id)
        await self._say(f"You are now in a copy: {forked.session_id}")

    async def _export(self, name: str) -> None:
        chat = self._chat
        if not chat.session_id:
            await self._say("There is nothing to export yet.")
            return
        data = await chat.client.export(chat.session_id, form="md")
        name = name or f"session-{time.strftime('%Y-%m-%d-%H%M%S')}.md"
        try:
            path = await asyncio.to_thread(_write_new, name, data)
        except (OSError, RuntimeError) as error:
            await self._say(f"Could not save the file: {safe_line(str(error))}")
        else:
            await self._say(f"Saved to {path}")


def looks_like_command(line: str) -> bool:
    """Whether it begins with a slash and a word, as commands do; a path has a slash more."""
    return line.startswith("/") and "/" not in line.split(maxsplit=1)[0][1:]


def names_command(line: str) -> bool:
    """Whether it begins with the whole name of one: nothing else takes an answer away."""
    return line.partition(" ")[0].rstrip() in {*(name for name, _ in COMMANDS), "/quit"}


def _is_message(rest: str) -> bool:
    """Whether this is something to say, which is shown as such, and not a word about the queue."""
    return rest.strip() not in {"", "resume", "pause", "clear"}


def _about(one: SessionShown, columns_max: int) -> str:
    words = safe_line(one.title or one.preview or "(empty)", max(10, columns_max))
    return words + (" · working" if one.open_runs else "")


def _write_new(name: str, data: bytes) -> Path:
    """A file that is there already stays as it is."""
    path = Path(name).expanduser().absolute()
    with path.open("xb") as file:
        file.write(data)
    return path
