"""The keys that answer an ask, for every prompt that shows its menu.

Distinguishes the Escape key from Alt-key combinations by the time until the next key.
"""

import asyncio
from collections.abc import Callable

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyProcessor
from prompt_toolkit.keys import Keys

from holdfast.cli.asks import DIGITS, GUARD_S, WITH_CHANGES, WITH_REASON, AskMenu


class MenuKeys:
    """Bindings that count while a menu is shown and the input line is empty.

    `answer` takes the line that answers; `keep_early` takes what was typed before the menu could be read.
    """

    def __init__(
        self,
        menu_now: Callable[[], AskMenu | None],
        *,
        answer: Callable[[str], None],
        keep_early: Callable[[str], None],
    ) -> None:
        self._menu_now, self._answer, self._keep_early = menu_now, answer, keep_early
        self.bindings = KeyBindings()
        choosing = Condition(lambda: menu_now() is not None and not get_app().current_buffer.text)
        for act, keys in (
            (self._type, (Keys.Any, Keys.BracketedPaste)),
            (self._press, (*DIGITS, "y", "Y", "n", "N")),
            (self._up, ("up", "c-p")),
            (self._down, ("down", "c-n")),
            (self._enter, ("enter",)),
        ):
            for key in keys:
                self.bindings.add(key, filter=choosing)(act)

    def _counted(self, event: KeyPressEvent) -> AskMenu | None:
        """The menu, if this key counts."""
        menu = self._menu_now()
        if menu is not None and menu.guard.lets_through():
            return menu
        self._keep_early(_typed(event))
        asyncio.get_running_loop().call_later(GUARD_S, event.app.invalidate)  # the hint says that keys count
        return None

    def _type(self, event: KeyPressEvent) -> None:
        if self._counted(event) is not None:
            event.current_buffer.insert_text(_typed(event))

    def _press(self, event: KeyPressEvent) -> None:
        menu = self._counted(event)
        if menu is None:
            return
        line = menu.line_for(event.data)
        if line is None:
            event.current_buffer.insert_text(event.data)
        else:
            self._take(event, line)

    def _up(self, event: KeyPressEvent) -> None:
        if (menu := self._counted(event)) is not None:
            menu.move(-1)

    def _down(self, event: KeyPressEvent) -> None:
        if (menu := self._counted(event)) is not None:
            menu.move(1)

    def _enter(self, event: KeyPressEvent) -> None:
        if (menu := self._counted(event)) is not None:
            self._take(event, menu.line_chosen() or "")

    def _take(self, event: KeyPressEvent, line: str) -> None:
        if line.startswith((WITH_REASON, WITH_CHANGES)):
            event.current_buffer.insert_text(line)
        else:
            self._answer(line)


def _typed(event: KeyPressEvent) -> str:
    """The text of the key; nothing if it is no letter."""
    if event.key_sequence[0].key == Keys.BracketedPaste:
        return event.data.replace("\r\n", "\n").replace("\r", "\n")
    return event.data if event.data.isprintable() else ""


ESCAPE_S = 0.1  # a terminal sends both parts of an Alt-key at once


class LoneEscape:
    """Bindings that drop an Escape before a key that a person typed after it.

    A prompt waits a second for the rest of a sequence such as Esc Enter. Without these, a "/" within that
    second would be Alt-/, which completes instead of beginning a command. At an empty prompt nothing can be
    completed, so a "/" begins a command however soon it follows.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pressed_s = (0.0, 0.0)  # the last key but one, and the last
        self.bindings = KeyBindings()
        is_typed = Condition(lambda: self._pressed_s[1] - self._pressed_s[0] > ESCAPE_S)
        is_empty = Condition(lambda: not get_app().current_buffer.text)
        self.bindings.add("escape", Keys.Any, filter=is_typed, eager=True)(_drop_escape)
        self.bindings.add("escape", "/", filter=is_empty, eager=True)(_drop_escape)

    def watch(self, app: Application[None] | Application[str]) -> None:
        """Measure the time between the keys of this application."""
        app.ttimeoutlen = ESCAPE_S
        app.key_processor.before_key_press += self._note

    def _note(self, processor: KeyProcessor) -> None:
        del processor
        self._pressed_s = (self._pressed_s[1], self._clock())


def _drop_escape(event: KeyPressEvent) -> None:
    event.key_processor.feed(event.key_sequence[-1], first=True)
