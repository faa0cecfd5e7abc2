"""Markdown that is still being written, cut into blocks that will not change any more and a rest."""

import re

from msgspec import Struct

CODE_LINES_MAX = 20
_FENCE = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)\s*+([\w+#.-]*+)[^`]*+$")


class Block(Struct, frozen=True):
    """A stretch of markdown, or some lines of code (`language` is then a string)."""

    text: str
    language: str | None = None


class BlockCutter:
    """Takes text as it comes.

    A paragraph is settled by the empty line after it, code by its fence or by the number of its lines.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._last = ""
        self._fence = ""
        self._language = ""

    def feed(self, text: str) -> list[Block]:
        """The blocks that are settled by this piece."""
        *lines, self._last = (self._last + text).split("\n")
        blocks: list[Block] = []
        for line in lines:
            self._take(line, blocks)
        return blocks

    def end(self) -> list[Block]:
        """All that is left: nothing more comes."""
        blocks: list[Block] = []
        self._take(self._last, blocks)
        self._settle(blocks)
        self.__init__()
        return blocks

    @property
    def rest(self) -> Block:
        """Return the block that may still grow, possibly empty."""
        is_fence = _closes(self._last, self._fence) if self._fence else _FENCE.match(self._last)
        last = "" if is_fence else self._last
        text = "\n".join([*self._lines, last]) if last else "\n".join(self._lines)
        return Block(text, self._language if self._fence else None)

    def _take(self, line: str, blocks: list[Block]) -> None:
        if self._fence:
            if _closes(line, self._fence):
                self._settle(blocks)
                self._fence = ""
                return
            self._lines.append(line)
            if len(self._lines) >= CODE_LINES_MAX:
                self._settle(blocks)
        elif opened := _FENCE.match(line):
            self._settle(blocks)
            self._fence, self._language = opened[1], opened[2]
        elif line.strip():
            self._lines.append(line)
        else:
            self._settle(blocks)

    def _settle(self, blocks: list[Block]) -> None:
        if self._lines:
            blocks.append(Block("\n".join(self._lines), self._language if self._fence else None))
        self._lines = []


def _closes(line: str, fence: str) -> bool:
    line = line.strip()
    return line.startswith(fence) and not line.strip(fence[0])
