"""Text as a terminal would leave it: no control codes, no overwritten progress bars. Linear in its length."""

import re
from codecs import getincrementaldecoder

# A string sequence (OSC, DCS, …) ends with BEL or ST; one that does not end soon is no sequence, and only its
# opening goes, or an unclosed one would hide all that follows.
_STRING = r"\x1b[\]PX^_][^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"
_CONTROL_SEQUENCE = r"\x1b\[[0-?]{0,256}[ -/]{0,16}[@-~]"
_SHORT = r"\x1b[ -/]{0,16}[0-~]"
_LONE = r"[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]+|\x1b"
_CODES = re.compile(f"{_STRING}|{_CONTROL_SEQUENCE}|{_SHORT}|{_LONE}")
_UNFINISHED = re.compile(r"\x1b(?:[\]PX^_][^\x07\x1b\x9c\n]{0,4096}\x1b?|\[?[ -?]{0,272})\Z")


def cleaned(text: str) -> str:
    """Without control codes; of an overwritten line, the last state."""
    text = _CODES.sub("", text)
    if "\r" not in text and "\b" not in text:
        return text
    return "\n".join(_settled(line) for line in text.split("\n"))


def _settled(line: str) -> str:
    if "\r" in line:
        # An overwritten line is reduced to its last non-empty segment.
        stretches = line.split("\r")
        line = next((stretch for stretch in reversed(stretches) if stretch), "")
    if "\b" not in line:
        return line
    kept: list[str] = []
    for character in line:
        if character != "\b":
            kept.append(character)
        elif kept:
            kept.pop()
    return "".join(kept)


class LiveText:
    """Turns bytes into clean text, piece by piece, wherever the pieces are cut."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, data: bytes) -> str:
        """The text that these bytes complete."""
        text = self._held + self._decoder.decode(data)
        unfinished = _UNFINISHED.search(text, max(0, len(text) - 4200))
        cut = unfinished.start() if unfinished else len(text)
        if text.endswith("\r"):
            cut = len(text) - 1  # half of a line's end, perhaps
        self._held = text[cut:]
        return _stepped(text[:cut])

    def end(self) -> str:
        """Return the held-back text."""
        text = self._held + self._decoder.decode(b"", True)
        self._held = ""
        return _stepped(text)


def _stepped(text: str) -> str:
    # Shown text can't be retracted, so each separate state of a progress bar is a line.
    text = _CODES.sub("", text).replace("\r\n", "\n")
    if "\r" not in text and "\b" not in text:
        return text
    lines = text.split("\n")
    return "\n".join(("\n" if line.startswith("\r") else "") + _settled(line) for line in lines)
