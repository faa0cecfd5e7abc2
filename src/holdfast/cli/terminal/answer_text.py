"""The text of an answer on its way to the terminal: each block is printed once, the last one is live."""

from holdfast.cli.terminal.blocks import Block, BlockCutter
from holdfast.cli.terminal.style import Style
from holdfast.safe_text import safe

LIVE_CHARS_MAX = 4_000  # more than a screen shows
AGAIN = "↻ the answer was cut off, so it starts over:"


class AnswerText:
    """One stretch of text; when its attempt is superseded, a new one that begins alike continues unseen."""

    def __init__(self, style: Style) -> None:
        self._ink = style
        self._cutter = BlockCutter()
        self._screen: list[Block] = []  # what is on the screen of this stretch
        self._matched = 0  # and how much of it the present attempt has said too
        self._chars = 0  # that the present attempt has said
        self._kept = ""  # the unfinished block of a superseded attempt, shown until the new text catches up
        self._kept_chars = 0
        self.is_begun = False
        self._live: tuple[Block, int, str] | None = None  # what was rendered last, for which width

    def add(self, text: str) -> str:
        """Return the text to print after this delta."""
        self.is_begun = True
        self._chars += len(text)
        return "".join(self._shown(block) for block in self._cutter.feed(text))

    def end(self) -> str:
        """Return the rest of the segment; the next one can start."""
        shown = "".join(self._shown(block) for block in self._cutter.end())
        if self._matched < len(self._screen):
            shown += self._again(self._screen[: self._matched])
        self._screen, self._matched, self.is_begun = [], 0, False
        self._chars, self._kept, self._kept_chars = 0, "", 0
        return shown

    def supersede(self) -> None:
        """All of it counts for nothing; what comes next may well begin with the same words."""
        if self._chars >= self._kept_chars:
            self._kept, self._kept_chars = self._cutter.rest.text, self._chars
        self._matched, self._chars, self.is_begun = 0, 0, False
        self._cutter = BlockCutter()

    @property
    def live(self) -> str:
        """The block that may still grow."""
        rest, width = self._cutter.rest, self._ink.width()
        if self._chars < self._kept_chars:
            return "\n" + self._ink.dim(safe(self._kept[-LIVE_CHARS_MAX:])) if self._kept.strip() else ""
        if self._matched < len(self._screen) or not rest.text.strip():
            return ""
        if len(rest.text) > LIVE_CHARS_MAX:
            rest = Block(rest.text[-LIVE_CHARS_MAX:], rest.language)
        if self._live is None or self._live[:2] != (rest, width):
            self._live = (rest, width, self._spaced(rest))
        return self._live[2]

    def _shown(self, block: Block) -> str:
        if self._matched == len(self._screen):
            shown = self._spaced(block)
            self._screen.append(block)
        elif block == self._screen[self._matched]:
            shown = ""
        else:
            # The new answer is another one, so it is shown whole.
            self._screen = [*self._screen[: self._matched], block]
            shown = self._again(self._screen)
        self._matched += 1
        return shown

    def _again(self, blocks: list[Block]) -> str:
        return "\n" + self._ink.dim(AGAIN) + "".join("\n" + self._ink.block(block) for block in blocks)

    def _spaced(self, block: Block) -> str:
        """With an empty line before it, unless it continues the code above."""
        goes_on = self._screen and block.language is not None and self._screen[-1].language is not None
        return ("" if goes_on else "\n") + self._ink.block(block)
