"""Erasing a drawing that the terminal wrapped again."""

from collections import deque
from io import StringIO

from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.input import DummyInput
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output.vt100 import Vt100_Output

from holdfast.cli.chat.prompt import ReflowRenderer


def test_a_window_that_becomes_narrower_while_it_is_drawn_is_erased_as_it_was_drawn() -> None:
    """Two rows of 60 columns above the cursor take four in 30."""
    widths, written = deque([60, 30]), StringIO()

    def height() -> int:
        if len(widths) > 1:
            widths.popleft()
        return 3

    output = Vt100_Output(written, lambda: Size(rows=40, columns=widths[0]), enable_cpr=False)
    control = FormattedTextControl(
        "\n".join(["=" * 60] * 3), show_cursor=True, get_cursor_position=lambda: Point(x=0, y=2)
    )
    layout = Layout(Window(control, height=height))
    app: Application[object] = Application(layout, output=output, input=DummyInput())
    renderer = ReflowRenderer.instead_of(app.renderer)
    with set_app(app):
        renderer.render(app, layout)
        drawn = len(written.getvalue())
        renderer.render(app, layout)
    assert written.getvalue()[drawn:].count("\x1b[2K\x1b[A") == 4
