"""Record the demo of the README in a real terminal: docs/images/recording.svg, from what tmux shows.

PYTHONPATH=tests .venv/bin/python scripts/recording.py

The demo model answers, so the recording needs no key and no network. Its frames are the screens that tmux
had, at the times at which they changed. Waits of more than two seconds are shortened to two.
"""

import asyncio
import html
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

OUT = Path(__file__).parents[1] / "docs" / "images" / "recording.svg"
COLUMNS, LINES = 92, 26
CELL_W, CELL_H, SIZE = 8.4, 17, 14
PAUSE_S_MAX = 2.0
END_S = 4.0
LOOK_S = 0.1
_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_ATTRIBUTE = re.compile(r' ([\w-]+)="([^"]*)"')
_COLOURS = ("#30363d", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4")
_BRIGHT = ("#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc")
DEFAULT = 39  # the terminal's colour
STYLES = {
    1: ("font-weight", "bold"),
    2: ("opacity", ".7"),
    **{30 + nth: ("fill", colour) for nth, colour in enumerate(_COLOURS)},
    **{90 + nth: ("fill", colour) for nth, colour in enumerate(_BRIGHT)},
}
TEXT, GROUND = "#e6edf3", "#0d1117"


class Frame(Struct):
    """A screen with its escape sequences, and how long it was there."""

    screen: str
    seconds: float = 0.0


class Recorder:
    """Looks at a terminal, and keeps each screen that differs from the one before."""

    def __init__(self, tmux: Callable[..., Awaitable[str]]) -> None:
        self._tmux = tmux
        self.frames: list[Frame] = []
        self._at_s = time.monotonic()

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            screen = await self._tmux("capture-pane", "-p", "-e")
            now_s = time.monotonic()
            if self.frames:
                self.frames[-1].seconds += now_s - self._at_s
            if not self.frames or self.frames[-1].screen != screen:
                self.frames.append(Frame(screen))
            self._at_s = now_s
            await asyncio.sleep(LOOK_S)


def svg_of(frames: Sequence[Frame]) -> str:
    """An image that shows the frames one after the other, without a script."""
    shown = [(frame.screen, min(max(frame.seconds, LOOK_S), PAUSE_S_MAX)) for frame in frames]
    shown[-1] = shown[-1][0], END_S
    total_s = sum(seconds for _, seconds in shown)
    width, height = round(COLUMNS * CELL_W + 24), LINES * CELL_H + 24
    font = f"font:{SIZE}px ui-monospace,Menlo,Consolas,monospace;fill:{TEXT};white-space:pre"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>',
        f"<style>text{{{font}}}g{{visibility:hidden;animation:{total_s:.2f}s step-end infinite}}",
    ]
    begin_s = 0.0
    for nth, (_, seconds) in enumerate(shown):
        begin, end = 100 * begin_s / total_s, 100 * (begin_s + seconds) / total_s
        keys = f"0%{{visibility:hidden}}{begin:.3f}%{{visibility:visible}}"
        keys += f"{end:.3f}%{{visibility:hidden}}" if nth + 1 < len(shown) else ""
        parts.append(f"@keyframes f{nth}{{{keys}}}#f{nth}{{animation-name:f{nth}}}")
        begin_s += seconds
    parts.append("</style>")
    for nth, (screen, _) in enumerate(shown):
        parts.append(f'<g id="f{nth}">')
        for row, line in enumerate(screen.split("\n")[:LINES]):
            if text := _line(line):
                parts.append(f'<text x="12" y="{12 + (row + 0.8) * CELL_H:.1f}">{text}</text>')
        parts.append("</g>")
    return "".join(parts) + "</svg>\n"


def _line(line: str) -> str:
    """A line of the terminal as spans with colours."""
    made, style, at = "", "", 0
    for found in [*_SGR.finditer(line), None]:
        text = line[at : found.start() if found else None]
        if text.strip() or (text and found):
            escaped = html.escape(text, quote=False)
            made += f"<tspan{style}>{escaped}</tspan>" if style else escaped
        if found:
            style, at = _style(found[1], style), found.end()
    return made.rstrip()


def _style(codes: str, before: str) -> str:
    """The attributes after these codes; an element has each once."""
    numbers = [int(code or 0) for code in codes.split(";")]
    attributes = {} if 0 in numbers or DEFAULT in numbers else dict(_ATTRIBUTE.findall(before))
    attributes |= dict(STYLES[number] for number in numbers if number in STYLES)
    return "".join(f' {name}="{value}"' for name, value in attributes.items())


async def record() -> None:
    """Write the image."""
    terminals: Any = import_module("cli.tmux")
    with tempfile.TemporaryDirectory(prefix="holdfast-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        programs = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        shell = ("env", "-i", f"PATH={programs}", f"HOME={folder}", "TERM=xterm-256color", "LANG=C.UTF-8")
        async with terminals.terminal(*shell, "PS1=$ ", "bash", "--norc", folder=folder) as window:
            await window.tmux("resize-window", "-x", str(COLUMNS), "-y", str(LINES))
            recorder = Recorder(window.tmux)
            watching = asyncio.create_task(recorder.watch())
            await play(window)
            watching.cancel()
    OUT.write_text(svg_of(recorder.frames), encoding="utf-8")
    print(f"wrote {OUT}: {len(recorder.frames)} frames, {OUT.stat().st_size // 1024} KiB")


async def type_slowly(window: Any, text: str) -> None:
    """Type as a person would, and press Enter."""
    for character in text:
        await window.tmux("send-keys", "-l", character)
        await asyncio.sleep(0.05)
    await window.keys("Enter")


async def play(window: Any) -> None:
    """Chat, kill the program in the middle of an answer, start it again, and see the rest."""
    await window.until("$")
    await type_slowly(window, "holdfast chat")
    await window.until("demo model")
    await asyncio.sleep(1.5)
    await type_slowly(window, "slow")
    await window.until("9… 10…")
    shell = int(await window.tmux("display-message", "-p", "#{pane_pid}"))
    for pid in holdfasts_below(shell):
        os.kill(pid, signal.SIGKILL)
    await window.until("Killed")
    await asyncio.sleep(1.0)
    await type_slowly(window, "holdfast chat --session last")
    await window.until("20… 21…")
    await asyncio.sleep(2.0)


def holdfasts_below(pid: int) -> list[int]:
    """The processes of the program that a shell has started."""
    children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    own = [one for one in children if b"holdfast" in Path(f"/proc/{one}/cmdline").read_bytes()]
    return own or [below for one in children for below in holdfasts_below(one)]


if __name__ == "__main__":
    asyncio.run(record())
