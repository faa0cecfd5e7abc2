"""The status line of a terminal after some events."""

from collections.abc import Iterable

from folds.live_line_states import RUN
from holdfast import events as e
from holdfast.cli.terminal.renderer import Renderer
from holdfast.cli.terminal.style import Style
from holdfast.client import LiveLine


def status_after(events: Iterable[e.Event], *, now_ms: int, server_says: str = "", of_run: str = RUN) -> str:
    telling = Renderer(Style(lambda: 80))
    for event in events:
        telling.hear(event)
    if server_says:
        telling.server_says = LiveLine(of_run, server_says)
    return telling.status(now_ms)
