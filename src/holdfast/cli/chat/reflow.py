"""A renderer that also erases the rows that a terminal added by wrapping when it became narrower."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from prompt_toolkit.layout import Layout
from prompt_toolkit.renderer import Renderer
from typing_extensions import override

from holdfast.cli.terminal.live_region import rows_taken

if TYPE_CHECKING:
    from prompt_toolkit.application import Application


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

    _drawn_columns = 0

    @override
    def erase(self, leave_alternate_screen: bool = True) -> None:
        if added := self._rows_added():
            self.output.cursor_up(added)
        super().erase(leave_alternate_screen)

    @override
    def render(self, app: "Application[object]", layout: Layout, is_done: bool = False) -> None:
        if self._rows_added():
            self.erase(leave_alternate_screen=False)
        super().render(app, layout, is_done)
        self._drawn_columns = self.output.get_size().columns

    def _rows_added(self) -> int:
        """How many rows above the cursor the terminal has added since the last drawing."""
        screen, columns = self.last_rendered_screen, self.output.get_size().columns
        if screen is None or not self.height_is_known or not 0 < columns < self._drawn_columns:
            return 0
        rows = [screen.data_buffer[row] for row in range(self._cursor_pos.y)]
        # Blanks at the end of a row weren't written.
        widths = [
            max((at + cell.width for at, cell in row.items() if not cell.char.isspace()), default=0)
            for row in rows
        ]
        added = rows_taken(widths, columns) - len(rows) + self._cursor_pos.x // columns
        # Rows that left the screen at its top can't be erased.
        return added if added <= self.rows_above_layout else 0


def rewraps_lines(environ: Mapping[str, str]) -> bool:
    """Whether the terminal wraps lines again when it becomes narrower; xterm and rxvt cut them off."""
    cuts = "XTERM_VERSION" in environ or environ.get("TERM", "").startswith("rxvt")
    return not cuts or "TMUX" in environ
