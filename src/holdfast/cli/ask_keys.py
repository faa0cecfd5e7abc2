"""The keys that answer an ask, for every prompt that shows its menu."""

import asyncio
from collections.abc import Callable

from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from holdfast.cli.ask_menu import DIGITS, GUARD_S, WITH_CHANGES, WITH_REASON, AskMenu


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
