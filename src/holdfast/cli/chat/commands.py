"""The slash commands of the chat.

Files that a person attaches to the next message.
"""

import asyncio
import math
import mimetypes
import re
import secrets
import time
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from holdfast.api.sessions import SessionShown
from holdfast.catalog import FEATURES
from holdfast.cli.chat.entries import person_text
from holdfast.cli.chat.picker import Picker, PickerRow, age
from holdfast.cli.ids import check_model
from holdfast.policy.secret_names import is_secret
from holdfast.safe_text import safe, safe_line
from holdfast.tools.files.regular_files import TooLarge, read_regular
from holdfast.values import COMMAND_MARK, COMPACT, FilePart, ImagePart

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from holdfast.cli.chat.conversation import ChatScreen
    from holdfast.cli.terminal.style import Style
    from holdfast.client import Client
    from holdfast.interfaces.feature import Feature, SlashCommand, UserCommands


FILE_BYTES_MAX = 25 * 1024 * 1024
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class NotAttached(Exception):
    """The file can't be attached; the message says why."""


async def attach(client: "Client", name: str, workspace: Path) -> ImagePart | FilePart:
    """Upload a file. Raises NotAttached or ClientError."""
    path, data = await asyncio.to_thread(_read, name, workspace)
    blob = await client.upload(data)
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    if media_type in _IMAGES:
        return ImagePart(blob=blob, media_type=media_type, name=path.name)
    return FilePart(blob=blob, media_type=media_type, name=path.name)


def _read(name: str, workspace: Path) -> tuple[Path, bytes]:
    """The file, in the workspace or where the chat was started."""
    given = Path(name.strip("'\"")).expanduser()
    found = [path for path in (workspace / given, given.absolute()) if path.is_file()]
    if not found:
        raise NotAttached(f"File not found: {given}.")
    path = found[0].resolve()
    if is_secret(str(path)):
        raise NotAttached(f"{given} might contain secrets, so it isn't sent to a model.")
    try:
        data = read_regular(path, bytes_max=FILE_BYTES_MAX)
    except TooLarge as error:
        raise NotAttached(f"{given} is larger than {FILE_BYTES_MAX // 1024**2} MB.") from error
    except OSError as error:
        raise NotAttached(f"{given}: {error.strerror}") from error
    if not data:
        raise NotAttached(f"{given} is empty.")
    return path, data


_OF_FEATURES = tuple(
    (name, command.help) for one in FEATURES.values() for name, command in one.terminal_commands.items()
)
COMMANDS = (
    ("/help", "list the commands"),
    ("/stop", "stop the run"),
    ("/steer", "TEXT: send a message to the active run (or just type)"),
    ("/queue", "TEXT: queue a message; alone, show the queue; resume, pause or clear"),
    ("/retry", "run the last message again"),
    *(row for row in _OF_FEATURES if len(row[0]) > 1),
    ("/plan", "TEXT: make a plan to accept before any changes; alone, show the plan; off"),
    ("/goal", "TEXT: keep working until this goal is reached, with evidence"),
    (COMPACT, "summarize the conversation for the model; add what to keep"),
    ("/context", "show what the model sees; pin N or last, unpin N, show N, revert N"),
    ("/mode", "show the permission modes, or set one by NAME"),
    ("/effort", "choose the reasoning effort of the next messages, or set it: low, medium, high, …; off"),
    ("/temperature", "set the temperature of the next messages, from 0 to 2; off"),
    ("/max-tokens", "limit the length of the next answers, in tokens; off"),
    ("/model", "choose the model for the next messages, or set it by NAME"),
    ("/attach", "FILE: attach it to the next message; alone, list attachments; clear"),
    ("/sessions", "choose a session, or switch to an ID"),
    ("/new", "start a new session"),
    ("/fork", "continue in a copy of this session"),
    ("/status", "show the server, session, model and your key's scopes"),
    ("/cost", "show this session's tokens and cost"),
    ("/export", "FILE: save the conversation as Markdown"),
    ("/exit", "quit (or press Ctrl-D)"),
    (COMMAND_MARK, "COMMAND: run it in the sandbox; the model sees the output"),
    *(row for row in _OF_FEATURES if len(row[0]) == 1),
)
SHORT_HELP = "?"
_MARKS = frozenset(name for name, _ in COMMANDS if len(name) == 1)
# The text after these is shown as a message.
_SENDING = (["/steer"], ["/queue"], ["/plan"], ["/goal"], [COMMAND_MARK])
SESSIONS_SHOWN = 100
EFFORTS = ("minimal", "low", "medium", "high", "max")
OPTION_WORDS = {"reasoning_effort": "effort", "temperature": "temperature", "max_tokens": "max tokens"}
TEMPERATURE_MAX = 2
_EFFORT = re.compile(r"[a-z0-9]{1,16}")
# Names in other agents.
_ALIASES: "Mapping[str, str]" = MappingProxyType(
    {
        "/clear": "/new",
        "/resume": "/sessions",
        "/permissions": "/mode",
        "/approvals": "/mode",
        "/tokens": "/cost",
        "/usage": "/cost",
    }
)
KEYS = (
    ("Enter", "send"),
    ("Alt-Enter, Ctrl-J", "new line; also \\ before Enter"),
    ("Tab, @", "complete a command; name a file"),
    ("@AGENT", "at the start: send the message to a named agent"),
    ("Shift-Tab", "switch to the next permission mode"),
    ("↑ ↓, Ctrl-R", "earlier messages; search them"),
    ("Esc Esc", "stop the run; then, edit your last message"),
    ("Ctrl-O", "show more of a tool's output"),
    ("Ctrl-T", "open the output of tools in a pager"),
    ("Ctrl-C", "stop the run; twice, quit"),
    ("Ctrl-D", "leave"),
)


class Commands:
    """The chat commands."""

    def __init__(self, chat: "ChatScreen") -> None:
        self._chat = chat
        self._known: Mapping[str, Callable[[str], Awaitable[None]]] = {
            "/help": self._help,
            SHORT_HELP: self._help,
            "/stop": self._stop,
            "/steer": self._steer,
            "/queue": self._queue,
            "/retry": self._retry,
            "/plan": self._plan,
            "/goal": self._goal,
            COMPACT: self._compact,
            "/context": chat.context.command,
            "/mode": chat.modes.command,
            "/effort": self._effort,
            "/temperature": self._temperature,
            "/max-tokens": self._max_tokens,
            "/model": self._model,
            "/sessions": self._sessions,
            "/new": self._new,
            "/fork": self._fork,
            "/attach": self._attach,
            "/status": self._status,
            "/cost": self._cost,
            "/export": self._export,
            COMMAND_MARK: self._run,
            **{
                name: partial(self._feature_command, feature, command)
                for feature in FEATURES.values()
                for name, command in feature.terminal_commands.items()
            },
        }

    async def take(self, line: str) -> bool:
        """Do what the line says; False if that is to leave."""
        word, _, rest = line.partition(" ") if line[0] == "/" else (line[:1], "", line[1:])
        if word in {"/exit", "/quit"}:
            return False
        if word not in self._known and await self._user_command(word[1:], rest.strip()):
            return True
        word = _ALIASES.get(word, word)
        meant = [word] if word in self._known else [name for name, _ in COMMANDS if name.startswith(word)]
        if not (meant in _SENDING and _is_message(rest)):
            await self._chat.prompt.print(person_text(self._chat.style, line))
        if len(meant) != 1:
            what = f"Which one: {', '.join(meant)}?" if meant else f"Unknown command: {safe_line(word, 40)}."
            await self._say(f"{what} /help lists the commands.")
        elif meant == ["/exit"]:
            return False
        else:
            await self._known[meant[0]](rest.strip())
        return True

    async def _feature_command(self, feature: "Feature", command: "SlashCommand", text: str) -> None:
        await feature.part(command.run)(self._chat, text)

    async def _user_command(self, name: str, arguments: str) -> bool:
        """Send the message of a command that the user wrote; False if there is none."""
        for commands in _user_commands():
            if (made := await commands.in_terminal(self._chat, name, arguments)) is not None:
                model = {"model": made.model} if made.model else {}
                plan = {"plan_first": True} if made.plan_first else {}
                await self._chat.send(made.text, more={**model, **plan})
                return True
        return False

    async def _say(self, text: str) -> None:
        await self._chat.prompt.print(self._chat.style.dim(text))

    async def _help(self, _: str) -> None:
        own = [row for commands in _user_commands() for row in await commands.listed(self._chat)]
        await self._chat.prompt.print(help_text(self._chat.style, own))

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
            await self._say("Nothing to retry.")
        elif chat.renderer.run_id:
            await self._say("A run is in progress. Stop it first with /stop.")
        else:
            await chat.client.retry(chat.renderer.last_run, session_id=chat.session_id)

    async def _plan(self, text: str) -> None:
        chat = self._chat
        if text == "off":
            chat.renderer.is_planning = False
            await self._say("Plan mode is off for your next message.")
        elif text:
            chat.renderer.is_planning = True
            await chat.send(text)
        else:
            mode = "Plan mode is on. Use /plan off to end it." if chat.renderer.is_planning else ""
            plan = chat.renderer.pinned
            await chat.prompt.print(chat.style.dim("No plan yet.") if plan is None else plan())
            if mode:
                await self._say(mode)

    async def _run(self, command: str) -> None:
        await self._chat.send(f"{COMMAND_MARK}{command}", more={"command": command, "input": None})

    async def _goal(self, text: str) -> None:
        if not text:
            await self._say("Add a goal: /goal make the tests in tests/unit pass")
        else:
            await self._chat.send(text, more={"goal": True})

    async def _compact(self, focus: str) -> None:
        chat = self._chat
        if not chat.session_id:
            await self._say("Nothing to compact yet.")
            return
        client_id = secrets.token_hex(8)
        chat.renderer.own.add(client_id)  # its line is on the screen already
        await chat.client.compact(chat.session_id, focus, client_id=client_id)

    async def _effort(self, level: str) -> None:
        chat = self._chat
        if not level:
            rows = [PickerRow(f"/effort {one}", one, "") for one in (*EFFORTS, "off")]
            chat.prompt.pick(Picker("Reasoning effort", rows))
            return
        if not _EFFORT.fullmatch(level):
            await self._say("Add one word: /effort low, medium, high, another level of your model, or off")
            return
        await self._set_option("reasoning_effort", None if level == "off" else level)

    async def _temperature(self, text: str) -> None:
        given = _number(text)
        if text and text != "off" and not 0 <= given <= TEMPERATURE_MAX:
            await self._say(f"Add a number from 0 to {TEMPERATURE_MAX:g}: /temperature 0.2, or off")
        elif text:
            await self._set_option("temperature", None if text == "off" else given)
        else:
            await self._show_option("temperature")

    async def _max_tokens(self, text: str) -> None:
        given = _number(text)
        if text and text != "off" and not (given >= 1 and given.is_integer()):
            await self._say("Add a whole number of tokens: /max-tokens 2000, or off")
        elif text:
            await self._set_option("max_tokens", None if text == "off" else int(given))
        else:
            await self._show_option("max_tokens")

    async def _set_option(self, name: str, value: object) -> None:
        if value is None:
            self._chat.options.pop(name, None)
        else:
            self._chat.options[name] = value
        await self._show_option(name)

    async def _show_option(self, name: str) -> None:
        value = safe_line(str(self._chat.options.get(name, "the default")), 20)
        await self._say(f"{OPTION_WORDS[name].capitalize()} of your next messages: {value}.")

    async def _model(self, name: str) -> None:
        chat = self._chat
        if name:
            await check_model(chat.client, name)
            chat.model = name
            await self._say(f"The next messages go to {safe_line(name, 80)}.")
            return
        rows = [
            PickerRow(
                f"/model {one.name}",
                f"{safe_line(one.name)}  {safe_line(one.model)}",
                "waiting" if one.gated_ms else "",
            )
            for one in await chat.client.targets()
        ]
        chat.prompt.pick(Picker("Models", rows))

    async def _sessions(self, session_id: str) -> None:
        chat = self._chat
        if session_id:
            await chat.open(session_id)
            return
        page = await chat.client.sessions(limit=SESSIONS_SHOWN)
        chat.known = [(one.session_id, _about(one)) for one in page.data]
        if not page.data:
            await self._say("No sessions yet.")
            return
        now_s = time.time()
        rows = [
            PickerRow(f"/sessions {one.session_id}", _about(one), _beside(one, now_s, chat.session_id))
            for one in page.data
        ]
        chat.prompt.pick(Picker("Sessions", rows))

    async def _new(self, _: str) -> None:
        await self._chat.close_session()
        await self._say("Your next message starts a new session.")

    async def _fork(self, _: str) -> None:
        chat = self._chat
        if not chat.session_id:
            await self._say("Nothing to copy yet.")
            return
        forked = await chat.client.fork(chat.session_id)
        await chat.move_to(forked.session_id)
        await self._say(f"You are now in a copy: {forked.session_id}")

    async def _attach(self, name: str) -> None:
        chat = self._chat
        if name == "clear":
            chat.attachments = []
        elif name:
            try:
                chat.attachments.append(await attach(chat.client, name, chat.workspace))
            except NotAttached as error:
                await self._say(f"Not attached: {safe_line(str(error))}")
                return
        names = ", ".join(safe_line(part.name) for part in chat.attachments)
        await self._say(f"Attached to your next message: {names}" if names else "Nothing attached.")

    async def _status(self, _: str) -> None:
        chat = self._chat
        health, targets, can = await asyncio.gather(
            chat.client.health(), chat.client.targets(), chat.client.capabilities()
        )
        context = await chat.context.lines()
        model = chat.model or (f"{targets[0].model} (target {targets[0].name})" if targets else "none")
        now = chat.renderer.status(time.time_ns() // 1_000_000)
        where = "in this process" if chat.attached.is_own else "attached"
        lines = [
            f"server     {chat.attached.url} ({where}), Holdfast {health.version}",
            f"data       {chat.attached.directory.data_dir}",
            f"workspace  {chat.workspace}",
            f"model      {model}",
            f"mode       {chat.modes.shown or 'unknown'}",
            f"session    {chat.session_id or 'none yet'}",
            f"your key   {', '.join(chat.scopes) or 'everything'}",
            f"sandbox    {can.sandbox.says if can.sandbox else 'unknown'}",
            f"run        {now or 'none'}",
            *context,
        ]
        await self._say("\n".join(safe(line) for line in lines))

    async def _cost(self, _: str) -> None:
        chat = self._chat
        if not chat.session_id:
            await self._say("No usage yet.")
            return
        page = await chat.client.messages(chat.session_id, limit=1)
        used = page.usage or {}
        cost = used.get("cost_usd")
        lines = [
            f"tokens in   {used.get('input_tokens', 0):,} ({used.get('cached_tokens', 0):,} from the cache)",
            f"tokens out  {used.get('output_tokens', 0):,}",
            f"cost        {'unknown: no price for this model' if cost is None else f'{cost:.4f} USD'}",
        ]
        await self._say("\n".join(lines))

    async def _export(self, name: str) -> None:
        chat = self._chat
        if not chat.session_id:
            await self._say("Nothing to export yet.")
            return
        data = await chat.client.export(chat.session_id, form="md")
        name = name or f"session-{time.strftime('%Y-%m-%d-%H%M%S')}.md"
        try:
            path = await asyncio.to_thread(_write_new, name, data)
        except FileExistsError:
            await self._say(f"{safe_line(name)} already exists. Choose another name: /export NAME.md")
        except (OSError, RuntimeError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            await self._say(f"Couldn't save {safe_line(name)}: {why}.")
        else:
            await self._say(f"Saved to {path}")


def _user_commands() -> "list[UserCommands]":
    return [one.part(one.user_commands) for one in FEATURES.values() if one.user_commands]


def help_text(style: "Style", own: "Sequence[tuple[str, str]]" = ()) -> str:
    """All commands, the user's `own` ones and keys, each with what it does."""

    def table(rows: "Sequence[tuple[str, str]]") -> list[str]:
        hang = max((len(name) for name, _ in rows), default=0) + 2
        return [style.line(f"{name:<{hang}}{about}", "dim", hang=hang) for name, about in rows]

    busy = "The agent reads messages you send while it works at its next step."
    return "".join(["\n", *table(COMMANDS), *table(own), "\n", *table(KEYS), "\n", style.dim(busy)])


def looks_like_command(line: str) -> bool:
    """Whether it begins with a slash and a word, as commands do, or with a mark of one.

    A path has a slash more, and a text of several lines that begins with # is Markdown.
    """
    if is_marked(line):
        return True
    return line.strip() == SHORT_HELP or (line.startswith("/") and "/" not in line.split(maxsplit=1)[0][1:])


def is_marked(line: str) -> bool:
    """Whether it begins with a command that is no word, such as !, and has more."""
    line = line.strip()
    return line[:1] in _MARKS and len(line) > 1 and not (line[0] == "#" and "\n" in line)


def names_command(line: str) -> bool:
    """Whether it begins with the whole name of one: nothing else takes an answer away."""
    names = {name for name, _ in COMMANDS if name not in _MARKS}
    return line.partition(" ")[0].rstrip() in {*names, "/quit"}


def is_compaction(line: str) -> bool:
    """Return whether it's the compact command, which appears in the transcript like a message."""
    return line.partition(" ")[0] == COMPACT


def _number(text: str) -> float:
    """Parse a number; NaN if it isn't one, which is in no range."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _is_message(rest: str) -> bool:
    """Whether this is something to say, which is shown as such, and not a word about the queue."""
    return rest.strip() not in {"", "resume", "pause", "clear", "off"}


def _about(one: SessionShown) -> str:
    return safe_line(one.title or one.preview or "(empty)")


def _beside(one: SessionShown, now_s: float, open_now: str) -> str:
    """Describe a session in a list: its status and age."""
    state = "needs you" if one.open_asks else "working" if one.open_runs else ""
    parts = ("open here" if one.session_id == open_now else "", state, age(now_s - one.last_active))
    return " · ".join(part for part in parts if part)


def _write_new(name: str, data: bytes) -> Path:
    """A file that is there already stays as it is."""
    path = Path(name).expanduser().absolute()
    with path.open("xb") as file:
        file.write(data)
    return path
