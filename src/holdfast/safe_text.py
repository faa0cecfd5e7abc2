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


def safe_line(text: str, columns_max: int = 0) -> str:
    """The same in one line, cut with an ellipsis if it takes more columns."""
    line = _LINE.sub(" ", safe(text)).strip()
    return cut(line, columns_max) if columns_max else line


def columns_of(text: str) -> int:
    """How many columns of a terminal a line takes: some letters take two, some none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(line: str, columns_max: int) -> str:
    """The line, with an ellipsis for what has no room."""
    if columns_of(line) <= columns_max:
        return line
    from rich.cells import set_cell_size

    return set_cell_size(line, max(0, columns_max - 1)).rstrip() + "…"


def exact(text: str) -> str:
    """The text to the letter: what a terminal would obey or hide is written out, so that nothing can lurk."""
    return "".join(char if char == "\n" or char.isprintable() else _written_out(char) for char in text)


def _written_out(char: str) -> str:
    return "\\t" if char == "\t" else char.encode("unicode_escape").decode("ascii")
