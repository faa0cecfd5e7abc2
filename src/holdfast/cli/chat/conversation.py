"""`holdfast chat`: a conversation in the terminal, with the running server or a new one."""

import asyncio
import secrets
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from holdfast import __version__
from holdfast import events as e
from holdfast.api.sessions import TranscriptPage
from holdfast.catalog import FEATURES
from holdfast.cli.asks import capabilities, may_approve
from holdfast.cli.attach import FAILED, OK, Attached, with_server
from holdfast.cli.chat.asks import ChatAsks
from holdfast.cli.chat.commands import (
    COMMANDS,
    OPTION_WORDS,
    Commands,
    is_compaction,
    is_marked,
    looks_like_command,
    names_command,
)
from holdfast.cli.chat.context import ChatContext
from holdfast.cli.chat.entries import entry_text, person_text
from holdfast.cli.chat.modes import ChatModes
from holdfast.cli.ids import AmbiguousName, check_model, resolve_session
from holdfast.cli.program_name import command_line, program
from holdfast.cli.terminal.child_asks import ChildAsks
from holdfast.cli.terminal.output import echo, echo_error, is_drawable
from holdfast.cli.terminal.renderer import Renderer
from holdfast.cli.terminal.style import Style
from holdfast.cli.terminal.tool_output import ToolCallOutput
from holdfast.client.address import ClientPatience
from holdfast.client.errors import BadAnswer, ClientError, Refused, Unreachable
from holdfast.client.updates import Away, Back, LiveLine, Seen, ask_id, resolved_id
from holdfast.host.known_secrets import known_secrets
from holdfast.racing import race
from holdfast.redaction import Redactor, without_keys
from holdfast.safe_text import safe, safe_line
from holdfast.values import CHAT, FilePart, ImagePart, Part

if TYPE_CHECKING:
    from holdfast.client import Client

TWICE_S = 2.0
STOP_S = 5.0  # how long leaving waits for the server to take a stop
SHOWN_AT_FIRST = 40
PATIENCE = ClientPatience(call_s=15.0, follow_s=600.0)


class ChatStart(Struct, frozen=True, kw_only=True):
    """The chat's options."""

    session: str = ""
    model: str = ""
    mode: str = ""  # empty: the session's, or the configured one
    options: Mapping[str, object] = {}
    agent: str = ""


def chat(flags: Mapping[str, object], start: ChatStart) -> int:
    """Talk until the person leaves; the exit code."""
    if not (sys.stdin.isatty() and is_drawable(sys.stdout)):
        is_dumb = sys.stdin.isatty() and sys.stdout.isatty()
        kind = "a terminal" + (" that can move its cursor (TERM is dumb)" if is_dumb else "")
        echo_error(f"holdfast: chat needs {kind}; use {program()} run instead")
        return FAILED

    async def work(attached: Attached) -> int:
        await check_model(attached.client, start.model)
        return await ChatScreen(attached, start).run(start.session)

    return with_server(flags, work, works="all", patience=PATIENCE)


class _FoundSession(Struct, frozen=True):
    """A session that can be opened: the end of its transcript, and its open runs, the oldest first."""

    session_id: str
    page: TranscriptPage
    working: list[str]

    @property
    def of_runs(self) -> list[dict[str, Any]]:
        """The entries of runs that are still open."""
        return [entry for entry in self.page.data if entry.get("run_id") in self.working]


class ChatScreen:
    """One terminal; the session may change while it is open."""

    def __init__(self, attached: Attached, start: ChatStart) -> None:
        from holdfast.cli.chat.file_names import WorkspaceFiles
        from holdfast.cli.chat.history import HISTORY, ChatHistory
        from holdfast.cli.chat.prompt import ChatPrompt, PromptActs, Words

        self.attached = attached
        self.scopes: Sequence[str] = ()  # what the key may do; none if the server doesn't say
        self.style = Style()
        self.model = start.model
        self.options = dict(start.options)  # of the model, for the next messages; empty: the target's
        self._agent = start.agent  # for all messages; empty: none, unless a message names one
        self.session_id = ""
        self.known: list[tuple[str, str]] = []  # sessions that can be completed, with their titles
        self.renderer = self._new_renderer(set())
        self.asks = ChatAsks(self)
        self._proposing: set[str] = set()  # open runs with proposals
        self.modes = ChatModes(self)
        self.context = ChatContext(self)
        self.modes.for_next = start.mode
        self._children = ChildAsks(attached.client, self._hear_child)
        self.attachments: list[ImagePart | FilePart] = []  # for the next message
        self._files = WorkspaceFiles(self.workspace)
        self._history = ChatHistory(attached.directory.data_dir / HISTORY, self._without_secrets)
        self.prompt = ChatPrompt(
            history=self._history,
            words=Words(COMMANDS, lambda: self.known, self._files.matching),
            live=self._live,
            status=lambda: self.renderer.status(time.time_ns() // 1_000_000),
            settings=self._settings,
            acts=PromptActs(
                interrupt=self._interrupt,
                expand=self._expand,
                page=lambda: self.begin(self._page_outputs()),
                edit_last=lambda: self.begin(self._edit_last()),
                cycle_mode=self.modes.cycle,
            ),
        )
        self._commands = Commands(self)
        self._watching: asyncio.Task[None] | None = None
        self._key_tasks: set[asyncio.Task[object]] = set()  # what keys have begun
        self._interrupted_s = -TWICE_S

    def _without_secrets(self, text: str) -> str:
        loaded = self.attached.loaded
        settings = loaded.settings if loaded else self.attached.directory.settings
        return without_keys(Redactor(known_secrets(settings)).redact_text(text))

    def _new_renderer(self, own: set[str]) -> Renderer:
        return Renderer(self.style, own=own, can_approve=self.can_approve)

    @property
    def can_approve(self) -> bool:
        """Whether the key may answer approvals."""
        return may_approve(self.scopes)

    def _settings(self) -> str:
        mode = f"mode {self.modes.shown}" if self.modes.shown else ""
        agent = f"agent {safe_line(self._agent, 64)}" if self._agent else ""
        options = [f"{OPTION_WORDS[name]} {value}" for name, value in self.options.items()]
        used = f"context {self.context.percent}" if self.context.percent else ""
        return " · ".join(filter(None, (agent, mode, *options, used)))

    def _live(self) -> str:
        return self.renderer.live() + self.renderer.pinned_lines()  # of the session that is open now

    @property
    def workspace(self) -> Path:
        """Where agents work for this chat."""
        return self.attached.directory.settings.workspace

    @property
    def client(self) -> "Client":
        """The server."""
        return self.attached.client

    async def run(self, session: str) -> int:
        """The conversation."""
        await asyncio.to_thread(self._history.read)
        await self._greet()
        if session and not await self.open(session):
            return FAILED
        if session and self.modes.for_next:
            await self.modes.set(self.modes.for_next)
        self.begin(self._files.refresh())
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self.prompt.leave)  # the window was closed: it comes twice
        loop.add_signal_handler(signal.SIGTERM, self._told_to_leave, signal.getsignal(signal.SIGTERM))
        reading = asyncio.create_task(self.prompt.run())
        taking = asyncio.create_task(self._take_lines())
        try:
            await race(watched=(reading, taking))
            for task in (reading, taking):
                if task.done():
                    task.result()
        finally:
            self.prompt.leave()
            taking.cancel()
            await asyncio.wait({reading, taking})
            await self._finish_key_tasks()
            goodbye, watching = self._goodbye(), self._watching
            await self.close_session()
            if watching is not None and not watching.cancelled():
                watching.result()
        if goodbye:
            echo(goodbye)
        return OK

    def begin(self, work: Coroutine[None, None, object]) -> None:
        """Do what a key asks for, beside everything else."""
        task = asyncio.create_task(work)
        self._key_tasks.add(task)
        task.add_done_callback(self._key_task_done)

    def _key_task_done(self, task: asyncio.Task[object]) -> None:
        if task.cancelled() or task.exception() is None:
            self._key_tasks.discard(task)
        else:
            self.prompt.leave()  # a bug of ours; `_finish_key_tasks` raises it

    async def _finish_key_tasks(self) -> None:
        """Wait for what keys have begun: a stop counts, however soon the person leaves."""
        if not self._key_tasks:
            return
        done, left = await asyncio.wait(self._key_tasks, timeout=STOP_S)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        for task in done:
            task.result()

    def _told_to_leave(self, next_time: Callable[[int, FrameType | None], object] | int | None) -> None:
        """Leave in good order, and at the next signal at once."""
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, next_time)
        self.prompt.leave()

    async def _greet(self) -> None:
        targets, server = await asyncio.gather(self.client.targets(), capabilities(self.client))
        self.scopes = server.auth.scopes if server is not None else ()
        self.modes.connected(server.permission_modes if server is not None else None)
        self.renderer.can_approve = self.can_approve
        model = self.model or (targets[0].model if targets else "")
        where = "" if self.attached.is_own else f" · attached to {self.attached.url}"
        text = self.style.line(f"Holdfast {__version__} · {safe_line(model, 60)}{where}", "bold")
        if self.attached.loaded is not None and self.attached.loaded.is_demo:
            text += self.style.dim(
                "No model is configured, so you're talking to the built-in demo model. Say hello."
            )
        text += self.style.dim(f"Agents work in {safe_line(str(self.workspace))}")
        text += self.style.dim("Type /help or ? for commands. Ctrl-C stops a run; press it twice to quit.")
        await self.prompt.print(text)

    def _goodbye(self) -> str:
        if not self.session_id:
            return ""
        again = command_line(f"chat --session {self.session_id}")
        if self.renderer.stopped_here.issuperset(self.renderer.open_runs):
            return f"To come back: {again}"
        if self.attached.is_own:
            return f"The run is paused and continues when you come back: {again}"
        return f"The run continues on the server. To come back: {again}"

    async def _take_lines(self) -> None:
        while (typed := await self.prompt.lines.get()) is not None:
            try:
                if typed.about and not names_command(typed.line):
                    await self.asks.take(typed)
                elif typed.edits and typed.line.strip():
                    await self.client.rewind(self.session_id, typed.edits - 1)
                    if is_marked(typed.line):
                        await self._commands.take(typed.line.strip())
                    else:
                        await self.send(typed.line)
                elif looks_like_command(typed.line):
                    if not await self._commands.take(typed.line.strip()):
                        return
                elif typed.line.strip():
                    await self.send(typed.line)
            except ClientError as error:
                await self.complain(error)

    async def complain(self, error: ClientError) -> None:
        """Say what went wrong; the conversation continues."""
        await self.prompt.print(self.style.line(f"✗ {safe_line(str(error))}", "red"))

    async def send(
        self, text: str, *, when_busy: str = "steer", more: Mapping[str, object] | None = None
    ) -> None:
        """Say something to the session; while a run works it hears this at its next step."""
        client_id = secrets.token_hex(8)
        self.renderer.own.add(client_id)
        names = [self.style.dim(f"  attached: {safe_line(part.name)}") for part in self.attachments]
        await self.prompt.print(person_text(self.style, text) + "".join(names))
        fields = {
            "client_id": client_id,
            "origin": CHAT,
            "workspace": str(self.workspace),
            "parts": self.attachments,
            **({"plan_first": True} if self.renderer.is_planning else {}),
            **({} if self.session_id else self.modes.fields()),
            **self.options,
            **({"agent": self._agent} if self._agent else {}),
            **(more or {}),
        }
        try:
            started = await self.client.start(
                text,
                session_id=self.session_id,
                when_busy="queue" if when_busy == "queue" else "steer",
                model=self.model,
                more=fields,
            )
        except (Refused, Unreachable, BadAnswer) as error:
            await self.complain(error)
            await self.prompt.print(
                self.style.dim("  Your message wasn't sent. It's back in the input line.")
            )
            self.prompt.put_back(text)
            return
        self.attachments = []
        if started.session_id != self.session_id:
            await self.close_session()
            self._watch(started.session_id, after=0)

    async def open(self, name: str) -> bool:
        """Show the end of a session and continue it; False if there is none."""
        try:
            found = await self._find(name)
        except (Refused, AmbiguousName) as error:
            await self.complain(error)
            if isinstance(error, Refused) and error.code == "session_not_found":
                there = "/sessions" if self.prompt.is_running else command_line("sessions list")
                await self.prompt.print(self.style.dim(f"  {there} lists all sessions."))
            return False
        await self.close_session()
        page = found.page
        shown = [entry for entry in page.data if entry not in found.of_runs or entry.get("kind") == "person"]
        text = self.style.dim("…") if page.has_more else ""
        await self.prompt.print(text + "".join(entry_text(self.style, entry) for entry in shown))
        self._continue(found)
        return True

    async def move_to(self, session_id: str) -> None:
        """Go on with a session whose conversation is on the screen already."""
        found = await self._find(session_id)
        await self.close_session()
        self._continue(found)

    async def _find(self, name: str) -> "_FoundSession":
        session_id = await resolve_session(self.client, name)
        page = await self.client.messages(session_id, limit=SHOWN_AT_FIRST)
        runs = await self.client.runs(session_id=session_id, limit=20)
        working = [run.run_id for run in reversed(runs.data) if run.outcome is None]
        return _FoundSession(session_id, page, working)

    def _continue(self, found: "_FoundSession") -> None:
        page = found.page
        after = min((int(entry["seq"]) for entry in found.of_runs), default=page.last_seq + 1) - 1
        # Of the transcript, not of the list: a fork's list has only the runs that began in it.
        answered = [run_id for entry in page.data if (run_id := str(entry.get("run_id") or ""))]
        self.renderer.last_run = answered[-1] if answered else ""
        self.renderer.open_runs = found.working
        self.modes.opened(page)
        self._watch(found.session_id, after=after, epoch=page.epoch or "")
        self.context.opened()
        self.begin(self._adopt_children(found.session_id))

    async def close_session(self) -> None:
        """Follow nothing any more."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
            self._watching = None
        await self._children.close()
        self.session_id = ""
        self.modes.closed()
        self.context.closed()
        self.renderer = self._new_renderer(self.renderer.own)
        self.asks.clear()

    def _watch(self, session_id: str, *, after: int, epoch: str = "") -> None:
        self.session_id = session_id
        following = self._follow(session_id, after=after, epoch=epoch)
        self._watching = asyncio.create_task(following, name="follow")
        self._watching.add_done_callback(self._left_alone)

    def _left_alone(self, watching: asyncio.Task[None]) -> None:
        """End the chat on a bug, instead of leaving a frozen screen."""
        if not watching.cancelled() and watching.exception() is not None:
            self.prompt.leave()

    async def _follow(self, session_id: str, *, after: int, epoch: str) -> None:
        try:
            watching = self.client.watch_session(session_id, after=after, epoch=epoch)
            async with aclosing(watching) as heard:
                async for one in heard:
                    match one:
                        case Seen():
                            await self._hear(one.event)
                        case LiveLine():
                            self.renderer.server_says = one
                        case Away():
                            self.renderer.lost(one)
                        case Back():
                            self.renderer.away = None
                    await self.prompt.print("")
        except ClientError as error:
            await self.complain(error)
            await self.prompt.print(
                self.style.dim(f"  When the server is back, continue with /sessions {session_id}.")
            )
            self.renderer.away = None

    async def _show_proposals(self, event: e.Event) -> None:
        """Show the proposals of a run that ends, so that they can be accepted here."""
        if isinstance(event, e.ToolEnded) and event.proposal:
            self._proposing.add(event.run_id)
        elif isinstance(event, e.RunEnded) and event.run_id in self._proposing:
            self._proposing.discard(event.run_id)
            for feature in FEATURES.values():
                if feature.terminal_proposals:
                    with suppress(ClientError):  # the proposals are still in the inbox
                        await feature.part(feature.terminal_proposals)(self, event.run_id)

    async def _hear(self, event: e.Event) -> None:
        await self.prompt.print(self.renderer.hear(event))
        self._children.take(event)
        if isinstance(event, e.RunEnded) and event.outcome not in {"completed", "refused", "cancelled"}:
            await self.prompt.print(self.style.dim("  Type /retry to try again."))
        await self.asks.update()
        await self._show_proposals(event)
        await self.modes.hear(event)
        await self.context.hear(event)
        if isinstance(event, e.RunEnded):
            with suppress(ClientError):  # what was read here is not unread on the page; only a courtesy
                await self.client.mark_read(self.session_id)
            self.begin(self._files.refresh())  # the run may have made some

    async def _hear_child(self, name: str, event: e.Event) -> None:
        """Show sub-agents' requests, which can be answered here too."""
        if isinstance(event, e.ApprovalAsked | e.QuestionAsked):
            self.renderer.asks[ask_id(event)] = event
            await self.prompt.print(self.style.dim(f"  {safe_line(name)} asks:"))
        else:
            self.renderer.asks.pop(resolved_id(event), None)
        await self.asks.update()

    async def _adopt_children(self, session_id: str) -> None:
        with suppress(ClientError):  # an older server has none
            self._children.adopt(await self.client.children(session_id))

    def _interrupt(self) -> None:
        now_s = time.monotonic()
        is_second = now_s - self._interrupted_s < TWICE_S
        self._interrupted_s = now_s
        if is_second:
            self.prompt.leave()
        elif self.renderer.run_id:
            self.begin(self.stop())
        elif self.prompt.typed:
            self.prompt.clear()
            self._interrupted_s = -TWICE_S
        else:
            self.begin(self.prompt.print(self.style.dim("Press Ctrl-C again to quit.")))

    def _expand(self) -> None:
        """Show more of what a tool prints, or once it is over its output in place."""
        outputs = self.renderer.outputs
        if outputs.is_printing:
            outputs.is_expanded = not outputs.is_expanded
            self.begin(self.prompt.print(""))
        elif (call := outputs.newest()) is not None:
            self.begin(self.prompt.print(outputs.expanded(call)))
        else:
            self.begin(self.prompt.print(self.style.dim("No tool output yet.")))

    async def _page_outputs(self) -> None:
        """Show the whole output of the last tool calls in a pager, the newest first."""
        calls = [call for call in reversed(self.renderer.outputs.calls.values()) if call.text().strip()]
        from holdfast.cli.chat.pager import pager_command

        command = await asyncio.to_thread(pager_command)
        if not calls or not command:
            why = "No tool output yet." if command else "No pager found. Set PAGER."
            await self.prompt.print(self.style.dim(why))
            return
        try:
            texts = [f"── {call.words}\n\n{await self._whole(call)}\n" for call in calls]
        except ClientError as error:
            await self.complain(error)
            return
        await self.prompt.page("\n".join(texts), command)

    async def _edit_last(self) -> None:
        """Put the last message into the input line; sending it replaces the message and its answer.

        While a run works, stop that first.
        """
        if self.renderer.run_id:
            await self.stop()
            return
        if not self.session_id:
            await self.prompt.print(self.style.dim("Nothing to edit."))
            return
        try:
            page = await self.client.messages(self.session_id, limit=SHOWN_AT_FIRST)
        except ClientError as error:
            await self.complain(error)
            return
        said = (entry for entry in reversed(page.data) if entry.get("kind") == "person")
        last = next((entry for entry in said if not is_compaction(str(entry.get("content", "")))), None)
        if last is not None and not self.prompt.typed:
            message: dict[str, Any] = last.get("message") or {}
            sent: list[Any] = message.get("parts") or []
            parts = msgspec.convert(sent, list[Part])
            kept = [part for part in parts if isinstance(part, ImagePart | FilePart)]
            self.attachments = [*kept, *self.attachments]
            self.prompt.edit(str(last.get("content", "")), int(last["seq"]))

    async def _whole(self, call: ToolCallOutput) -> str:
        if not call.blob:
            return call.text()
        data = await self.client.blob(call.blob)
        return safe(data.decode("utf-8", "replace"))

    async def stop(self) -> None:
        """Request a stop of the active run."""
        run_id = self.renderer.run_id
        if not run_id:
            await self.prompt.print(self.style.dim("No run is in progress."))
            return
        try:
            self.renderer.stopped_here.add(run_id)
            await self.client.stop(run_id)
        except ClientError as error:
            self.renderer.stopped_here.discard(run_id)
            if not isinstance(error, Refused) or error.code != "run_not_found":
                await self.complain(error)
