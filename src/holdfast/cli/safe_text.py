"""Text from models, tools and files, made safe to show on a terminal."""

import re

# whole escape sequences: CSI, then strings (OSC, DCS, SOS, PM, APC) up to their end, then all shorter ones
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# what is left of controls, and marks that make text read otherwise than it is written
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_LINE = re.compile(r"\s+")


def safe(text: str) -> str:
    """The text without anything that a terminal would obey; lines and tabs stay."""
    text = text.replace("\r\n", "\n")
    return _CONTROLS.sub("", _SEQUENCES.sub("", text))


def safe_line(text: str, chars_max: int = 0) -> str:
    """The same in one line, cut with an ellipsis if it is longer."""
    line = _LINE.sub(" ", safe(text)).strip()
    if chars_max and len(line) > chars_max:
        return line[: max(0, chars_max - 1)] + "…"
    return line


def exact(text: str) -> str:
    """The text to the letter: what a terminal would obey or hide is written out, so that nothing can lurk."""
    return "".join(char if char == "\n" or char.isprintable() else _written_out(char) for char in text)


def _written_out(char: str) -> str:
    return "\\t" if char == "\t" else char.encode("unicode_escape").decode("ascii")
