"""The input line of the chat, with what is live above it; it stays while answers are printed over it.

A renderer that also erases the rows that a terminal added by wrapping when it became narrower.
"""

import asyncio
import os
import select
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

from msgspec import Struct
from prompt_toolkit import ANSI, PromptSession
from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, get_common_complete_suffix
from prompt_toolkit.data_structures import Point
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent, merge_key_bindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.output import Output
from prompt_toolkit.renderer import Renderer
from typing_extensions import override

from holdfast.cli.ask_keys import LoneEscape, MenuKeys
from holdfast.cli.asks import GUARD_S, AskMenu, TypeAheadGuard
from holdfast.cli.chat.pager import show_in_pager
from holdfast.cli.chat.picker import Picker
from holdfast.cli.terminal.live_region import rows_taken
from holdfast.cli.terminal.output import colored, write_all
from holdfast.client.updates import AskEvent


class ReflowRenderer(Renderer):
    """The renderer of an application. Set it as its `renderer` before it runs."""

    @classmethod
    def instead_of(cls, other: Renderer) -> "ReflowRenderer":
        """A renderer with the same settings."""
        return cls(
            other.style,
            other.output,
            full_screen=other.full_screen,
            mouse_support=other.mouse_support,
            cpr_not_supported_callback=other.cpr_not_supported_callback,
        )

    @override
    def erase(self, leave_alternate_screen: bool = True) -> None:
        if added := self._rows_added():
            output = self.output
            output.erase_down()
            # Line by line, since tmux keeps a screen that is erased from its top in its history. Rows that
            # left the screen at its top can't be erased, and the cursor stops there.
            for _ in range(min(self._cursor_pos.y + added, output.get_size().rows)):
                output.write_raw("\x1b[2K")
                output.cursor_up(1)
            output.write_raw("\r")
            self._cursor_pos = Point(x=0, y=0)
        super().erase(leave_alternate_screen)

    @override
    def render(self, app: "Application[object]", layout: Layout, is_done: bool = False) -> None:
        if self._rows_added():
            self.erase(leave_alternate_screen=False)
        super().render(app, layout, is_done)

    def _rows_added(self) -> int:
        """How many rows above the cursor the terminal has added since the last drawing."""
        screen, drawn, columns = self.last_rendered_screen, self._last_size, self.output.get_size().columns
        if screen is None or drawn is None or not 0 < columns < drawn.columns:
            return 0
        rows = [screen.data_buffer[row] for row in range(self._cursor_pos.y)]
        # Blanks at the end of a row weren't written.
        widths = [
            max((at + cell.width for at, cell in row.items() if not cell.char.isspace()), default=0)
            for row in rows
        ]
        return rows_taken(widths, columns) - len(rows) + self._cursor_pos.x // columns


def rewraps_lines(environ: Mapping[str, str]) -> bool:
    """Whether the terminal wraps lines again when it becomes narrower; xterm and rxvt cut them off."""
    cuts = "XTERM_VERSION" in environ or environ.get("TERM", "").startswith("rxvt")
    return not cuts or "TMUX" in environ


LINES_WAITING_MAX = 64
REDRAW_S = 0.08
TICK_S = 0.5
PAGE_ROWS = 10


class Typed(Struct, frozen=True):
    """A line, and the ask or the message that it was sent about, if any."""

    line: str
    about: str = ""
    edits: int = 0  # the seq of the message that the line replaces


class SilentInput(Vt100Input):
    """A keyboard whose letters the terminal itself never repeats, also not while something is printed."""

    _has_typed_ahead = False

    def cooked_mode(self) -> AbstractContextManager[None]:
        """See Vt100Input."""
        return self.raw_mode()

    def attach(self, input_ready_callback: Callable[[], None]) -> AbstractContextManager[None]:
        """See Vt100Input.

        A key waits for tasks that began before it. uvloop reads first, and keys that were typed ahead would
        find no history.
        """

        def read_soon() -> None:
            asyncio.get_running_loop().call_soon(input_ready_callback)

        self._has_typed_ahead = bool(select.select([self.fileno()], [], [], 0)[0])
        return super().attach(read_soon)

    def read_keys(self) -> list[KeyPress]:
        """See Vt100Input.

        Before the prompt was there, the terminal ended lines with a line feed, which is Ctrl-J from then on.
        """
        keys = super().read_keys()
        if not self._has_typed_ahead:
            return keys
        self._has_typed_ahead = False
        return [KeyPress(Keys.ControlM, key.data) if key.key is Keys.ControlJ else key for key in keys]


class PromptDevice(Struct, frozen=True):
    """A prompt's input, output and clock; by default the terminal of this process."""

    keyboard: Input | None = None
    screen: Output | None = None
    clock: Callable[[], float] = time.monotonic


def _nothing() -> None:
    """No act is bound to the key."""


class PromptActs(Struct, frozen=True, kw_only=True):
    """The actions of additional keys."""

    interrupt: Callable[[], None] = _nothing  # Ctrl-C
    expand: Callable[[], None] = _nothing  # Ctrl-O
    page: Callable[[], None] = _nothing  # Ctrl-T
    edit_last: Callable[[], None] = _nothing  # Esc Esc, which first stops the run
    cycle_mode: Callable[[], None] = _nothing  # Shift+Tab


class Words(Completer):
    """Completes slash commands, the ids that fit behind some of them, and files behind an @."""

    def __init__(
        self,
        commands: Sequence[tuple[str, str]],
        ids: Callable[[], Sequence[tuple[str, str]]],
        files: Callable[[str], Iterable[str]],
    ) -> None:
        self._commands = commands
        self._ids = ids
        self._files = files

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """See Completer."""
        del complete_event
        text = document.text_before_cursor
        if (name := file_typed(text)) is not None:
            yield from (Completion(one, -len(name)) for one in self._files(name) if one != name)
            return
        word, space, rest = text.partition(" ")
        if not text.startswith("/") or "\n" in text:
            return
        if not space:
            for name, about in self._commands:
                if name.startswith(word) and name != word:
                    yield Completion(name, -len(word), display_meta=about)
        elif word == "/sessions":
            for session_id, about in self._ids():
                if session_id.startswith(rest) and session_id != rest:
                    yield Completion(session_id, -len(rest), display_meta=about)


def file_typed(text: str) -> str | None:
    """Return the partial file name after an @ at the start of a word, or after /attach."""
    if text.startswith("/attach "):
        return text.removeprefix("/attach ").lstrip()
    word = text[max(text.rfind(mark) for mark in (" ", "\n", "\t")) + 1 :]
    return word[1:] if word.startswith("@") else None


class ChatPrompt:
    """Gives typed lines to a queue; Enter sends, Esc-Enter makes a new line."""

    def __init__(
        self,
        *,
        history: History,
        words: Completer,
        live: Callable[[], str],
        status: Callable[[], str],
        acts: PromptActs,
        settings: Callable[[], str] = str,  # what is always shown, such as the mode
        device: PromptDevice | None = None,
    ) -> None:
        self.lines: asyncio.Queue[Typed | None] = asyncio.Queue(LINES_WAITING_MAX)
        self._live, self._status, self._acts = live, status, acts
        self._settings = settings
        self._words = words
        self._device = device or PromptDevice()
        self._about = ""
        self._menu: AskMenu | None = None
        self._picker: Picker | None = None
        self._edits = 0
        self._draft = ""
        self._early = ""  # what was typed when the menu had just appeared
        self._printing = asyncio.Lock()
        self._shown: tuple[str, StyleAndTextTuples] = ("", [])
        completing = Condition(self._is_completing)
        escape = LoneEscape(self._device.clock)
        self._session: PromptSession[None] = PromptSession(
            self._message,
            multiline=True,
            key_bindings=merge_key_bindings(
                [escape.bindings, self._keys(), self._picker_keys(), self._menu_keys()]
            ),
            history=history,
            completer=words,
            complete_while_typing=completing,
            input=self._device.keyboard or SilentInput(sys.stdin),
            output=self._device.screen,
            placeholder=self._placeholder,
            reserve_space_for_menu=6,
            erase_when_done=True,
            prompt_continuation="  ",
        )
        app = self._session.app
        app.min_redraw_interval = REDRAW_S
        escape.watch(app)
        app.after_render += self._drawn
        if rewraps_lines(os.environ):  # noqa: TID251  # this is the edge
            app.renderer = ReflowRenderer.instead_of(app.renderer)
        # The live lines have their own window: the prompt's message is processed letter by letter.
        above = Window(FormattedTextControl(self._above), dont_extend_height=True, wrap_lines=True)
        app.layout = Layout(HSplit([above, self._session.layout.container]), self._session.default_buffer)

    async def run(self) -> None:
        """Read until the person leaves."""
        await self._session.prompt_async(refresh_interval=TICK_S, handle_sigint=False)

    @property
    def is_running(self) -> bool:
        """Whether a person can type."""
        return self._session.app.is_running

    def leave(self) -> None:
        """End `run`."""
        if self._session.app.is_running and not self._session.app.is_done:
            self._session.app.exit()

    async def print(self, text: str) -> None:
        """Print something that stays above the input line."""
        async with self._printing:
            if not text:
                self._session.app.invalidate()
            elif self._session.app.is_running:
                await run_in_terminal(lambda: write_all(sys.stdout, colored(text)), in_executor=True)
            else:
                await asyncio.to_thread(write_all, sys.stdout, colored(text))

    async def page(self, text: str, command: Sequence[str]) -> None:
        """Show text in a pager; what is printed meanwhile waits."""
        async with self._printing:
            await show_in_pager(text, command)

    def ask(self, about: str, asked: AskEvent) -> None:
        """Show the menu of the request with this id. A partial input is restored after the answer."""
        self._leave_picker()
        if not self._about:
            self._draft = self._session.default_buffer.text
            self._session.default_buffer.reset()
        self._about = about
        self._menu = AskMenu(asked, TypeAheadGuard(self._device.clock))
        self._session.app.invalidate()

    def pick(self, picker: Picker) -> None:
        """Let the person choose a row, whose line is then taken as if it was typed."""
        if not self._about:
            self.clear()
            self._picker = picker
            self._session.app.invalidate()

    def _leave_picker(self) -> None:
        if self._picker is not None:
            self._picker = None
            self._session.default_buffer.reset()

    def edit(self, text: str, seq: int) -> None:
        """Put a message that was sent into the input line; what is sent next replaces it."""
        self._edits = seq
        self.put_back(text)

    def resume(self) -> None:
        """Nothing is asked any more: continue with what was half typed."""
        if self._about:
            # Early keys that would all answer were an answer that came too soon; others belong to a message.
            is_answer = self._menu is None or self._menu.all_answer(self._early) or len(self._early) == 1
            is_text = self._draft or not is_answer
            self.put_back(self._draft + self._early if is_text else "")
            self._about, self._menu, self._draft, self._early = "", None, "", ""

    def put_back(self, text: str) -> None:
        """Put text into the input line, before what is there."""
        buffer = self._session.default_buffer
        there = buffer.text
        whole = f"{text}\n{there}" if text and there else text or there
        buffer.document = Document(whole, len(whole))
        self._session.app.invalidate()

    def _message(self) -> ANSI:
        words = (("answer", self._about), ("filter", self._picker), ("edit", self._edits))
        return ANSI(f"\x1b[1m{next((word for word, is_so in words if is_so), '')}> \x1b[0m")

    def _above(self) -> StyleAndTextTuples:
        size = shutil.get_terminal_size((80, 24))
        lines = self._live().splitlines()[-max(1, size.lines - 8) :]
        if self._picker is not None:
            lines = self._picker.lines(self.typed, width=size.columns, rows_max=size.lines - 10)
        elif self._menu is not None:
            lines += ["", *self._menu.lines(size.columns), "", f"\x1b[2m{self._settings()}\x1b[0m"]
        else:
            status, settings = self._status(), self._settings()
            shown = " · ".join(filter(None, (f"⋯ {status}" if status else "", settings)))
            lines += ["", f"\x1b[2m{shown}\x1b[0m"] if shown else []
        text = "\n".join(lines)
        if text != self._shown[0]:
            self._shown = (text, to_formatted_text(ANSI(text)))
        return self._shown[1]

    def _placeholder(self) -> ANSI:
        return ANSI(f"\x1b[2m{self._menu.hint}\x1b[0m" if self._menu is not None else "")

    def _drawn(self, app: Application[None]) -> None:
        """The screen shows what there is: the guard of a new menu begins, and its hint comes when it ends."""
        if self._menu is not None and self._menu.guard.drawn():
            asyncio.get_running_loop().call_later(GUARD_S, app.invalidate)

    def _menu_keys(self) -> KeyBindings:
        return MenuKeys(lambda: self._menu, answer=self._put, keep_early=self._keep_early).bindings

    def _keep_early(self, text: str) -> None:
        self._early += text

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        writing = has_focus(DEFAULT_BUFFER)  # and not searching in the history
        acts: list[tuple[Callable[[KeyPressEvent], None], tuple[tuple[str, ...], ...]]] = [
            (self._enter, (("enter",),)),
            (self._tab, (("tab",),)),
            (self._back_tab, (("s-tab",),)),
            (_new_line, (("escape", "enter"), ("c-j",))),
            (lambda _: self._acts.interrupt(), (("c-c",),)),
            (lambda _: self._acts.expand(), (("c-o",),)),
            (lambda _: self._acts.page(), (("c-t",),)),
            (self._end_of_input, (("c-d",),)),
            (self._edit_last, (("escape", "escape"),)),
        ]
        for act, names in acts:
            for name in names:
                keys.add(*name, filter=writing, eager=len(name) > 1)(act)
        return keys

    def _enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif buffer.document.char_before_cursor == "\\" and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            text = buffer.text
            if not self._about and text.strip():
                buffer.append_to_history()
            buffer.reset()
            self._put(text)

    def _tab(self, event: KeyPressEvent) -> None:
        _complete(event.current_buffer, self._words)

    def _back_tab(self, event: KeyPressEvent) -> None:
        if event.current_buffer.complete_state:
            event.current_buffer.complete_previous()
        else:
            self._acts.cycle_mode()

    def _edit_last(self, event: KeyPressEvent) -> None:
        if not event.current_buffer.text and not self._about:
            self._acts.edit_last()

    def _picker_keys(self) -> KeyBindings:
        keys = KeyBindings()
        picking = Condition(lambda: self._picker is not None)

        def move(by: int) -> None:
            if self._picker is not None:
                self._picker.move(by, self.typed)

        def choose() -> None:
            line = self._picker.chosen(self.typed) if self._picker is not None else None
            if line is not None:
                self._leave_picker()
                self._put(line)

        acts: list[tuple[Callable[[], None], tuple[str, ...]]] = [
            (lambda: move(-1), ("up", "c-p")),
            (lambda: move(1), ("down", "c-n")),
            (lambda: move(-PAGE_ROWS), ("pageup",)),
            (lambda: move(PAGE_ROWS), ("pagedown",)),
            (choose, ("enter", "tab")),
            (self._leave_picker, ("escape", "c-c", "c-d")),
        ]
        for act, names in acts:
            for name in names:
                keys.add(name, filter=picking, eager=name == "escape")(_without_event(act))
        return keys

    def _is_completing(self) -> bool:
        document = self._session.default_buffer.document
        return self._picker is None and (
            document.text.startswith("/") or file_typed(document.text_before_cursor) is not None
        )

    def _end_of_input(self, event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.delete()
        else:
            self._put(None)

    def _put(self, line: str | None) -> None:
        if self.lines.full():
            self.put_back(line or "")
        else:
            self.lines.put_nowait(None if line is None else Typed(line, self._about, self._edits))
            self._edits = 0

    @property
    def typed(self) -> str:
        """Return the text of the input line."""
        return self._session.default_buffer.text

    def clear(self) -> None:
        """Clear the input line. Its next text is sent as a new message."""
        self._edits = 0
        self._session.default_buffer.reset()


def _without_event(act: Callable[[], None]) -> Callable[[KeyPressEvent], None]:
    """The act for a key, which needs to know nothing about it."""
    return lambda _: act()


def _new_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")


def _complete(buffer: Buffer, words: Completer) -> None:
    """Complete immediately, because a menu that is just opening would ignore the key."""
    found = list(words.get_completions(buffer.document, CompleteEvent(completion_requested=True)))
    if len(found) == 1:
        buffer.apply_completion(found[0])
    elif buffer.complete_state:
        buffer.complete_next()
    elif found:
        buffer.insert_text(get_common_complete_suffix(buffer.document, found))
        buffer.start_completion()
