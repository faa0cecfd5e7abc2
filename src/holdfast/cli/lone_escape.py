"""Distinguishes the Escape key from Alt-key combinations by the time until the next key."""

from collections.abc import Callable

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyProcessor
from prompt_toolkit.keys import Keys

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
