"""A renderer that also erases the rows that a terminal added by wrapping when it became narrower."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from prompt_toolkit.data_structures import Point
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
