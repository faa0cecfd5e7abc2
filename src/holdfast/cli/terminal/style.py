"""Styled text for the terminal. Nothing here writes."""

import re
import shutil
from collections.abc import Callable
from functools import cached_property
from io import StringIO
from typing import TYPE_CHECKING, Any

from holdfast.cli.terminal.blocks import Block
from holdfast.safe_text import safe

if TYPE_CHECKING:
    from rich.console import Console

WIDTH_MAX = 120
MARKDOWN_CHARS_MAX = 20_000  # a longer paragraph is no prose, and reading it as markdown takes too long
NARROW_HANG = 4
_BEGIN = re.compile(r" *(?:[·■✗✓] )?")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def terminal_width() -> int:
    """How wide text is set; very wide lines are hard to read."""
    return min(WIDTH_MAX, shutil.get_terminal_size((80, 24)).columns)


class Style:
    """Renders for a terminal of the width that it has at the moment."""

    def __init__(self, width: Callable[[], int] = terminal_width) -> None:
        self.width = width

    @cached_property
    def _console(self) -> "Console":
        from rich.console import Console

        return Console(file=StringIO(), force_terminal=True, highlight=False, emoji=False, markup=False)

    def rendered(self, what: Any) -> str:
        """Anything that rich can show; the text ends with a line's end."""
        console = self._console
        console.width = max(20, self.width())
        with console.capture() as captured:
            console.print(what, crop=False, overflow="fold")
        return without_padding(captured.get())

    def line(self, text: str, style: str = "", *, hang: int = 0) -> str:
        """Text of ours in one style, with a line's end; a wrapped line is indented like its first.

        `hang` is where a wrapped line begins if that is not behind the indent and the sign of the first. If
        that leaves less than half of the width, it is a few columns, so that no such line looks like a first.
        """
        from rich.text import Text

        whole = Text(text, style=style)
        begin = hang or _BEGIN.match(text).end()  # pyright: ignore[reportOptionalMemberAccess]  # it may be empty
        width = max(20, self.width())
        if begin > width // 2:
            begin = NARROW_HANG if hang else 0
        if not begin or "\n" in text or whole.cell_len <= width:
            return self.rendered(whole)
        lines = whole[begin:].wrap(self._console, width - begin, overflow="fold")
        first, *rest = lines
        indent = Text(" " * begin)
        return self.rendered(Text("\n").join([whole[:begin] + first, *(indent + line for line in rest)]))

    def dim(self, text: str) -> str:
        """Style less important text."""
        return self.line(text, "dim")

    def block(self, block: Block) -> str:
        """A block of an answer."""
        text = safe(block.text)
        if block.language is not None:
            from rich.padding import Padding
            from rich.syntax import Syntax

            from holdfast.cli.terminal.markdown import CODE_THEME

            code = Syntax(text, block.language or "text", theme=CODE_THEME, word_wrap=True)
            return self.rendered(Padding(code, (0, 0, 0, 2)))
        if len(text) > MARKDOWN_CHARS_MAX:
            return self.line(text)
        from holdfast.cli.terminal.markdown import TEXT_THEME, ChatMarkdown

        with self._console.use_theme(TEXT_THEME):
            return self.rendered(ChatMarkdown(text))


def without_padding(text: str) -> str:
    """Without the padding that rich adds: a narrower window would wrap it, and a copy would hold it."""
    lines = [_shortened(line) for line in text.split("\n")]
    while lines and not _COLOUR.sub("", lines[-1]):
        lines.pop()
    first = next((at for at, line in enumerate(lines) if _COLOUR.sub("", line)), 0)
    return "\n".join(lines[first:]) + "\n"


def _shortened(line: str) -> str:
    """The line without spaces at its end, also where colours end between them."""
    if not line.endswith((" ", "m")):
        return line
    pieces: list[str] = []
    end = len(line)
    while True:
        shorter = len(line[:end].rstrip(" "))
        colour = line.rfind("\x1b[", 0, shorter)
        if colour < 0 or not _COLOUR.fullmatch(line, colour, shorter):
            return line[:shorter] + "".join(reversed(pieces))
        pieces.append(line[colour:shorter])
        end = colour
