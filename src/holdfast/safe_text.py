"""Text from models, tools and files, made safe to show on a terminal."""

import re
import unicodedata

# whole escape sequences: CSI, then strings (OSC, DCS, SOS, PM, APC) up to their end, then all shorter ones
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# what is left of controls, and marks that make text read otherwise than it is written
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# printable for Unicode, but nothing is seen of them: fillers, joiners, selectors of variants, and blanks
_UNSEEN = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc"
    r"\U0001d159\U000e0100-\U000e01ef]"
)
_LINE = re.compile(r"\s+")


def safe(text: str) -> str:
    """The text without control sequences; line breaks and tabs are kept."""
    text = text.replace("\r\n", "\n")
    return _CONTROLS.sub("", _SEQUENCES.sub("", text))


def safe_json(document: str) -> str:
    """JSON with the same meaning, whose control characters are all escaped."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def safe_line(text: str, columns_max: int = 0) -> str:
    """The same on one line, cut with an ellipsis if it is too wide."""
    line = _LINE.sub(" ", safe(text)).strip()
    return cut(line, columns_max) if columns_max else line


def sentences(*texts: str) -> str:
    """Texts that each say something whole, one after the other."""
    said = [text.strip() for text in texts if text.strip()]
    ended = [text if text[-1] in ".!?:…" else f"{text}." for text in said[:-1]]
    return " ".join([*ended, *said[-1:]])


def columns_of(text: str) -> int:
    """How many terminal columns a line takes: some characters take two, some none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(line: str, columns_max: int) -> str:
    """The line, cut with an ellipsis if it is too wide."""
    if columns_of(line) <= columns_max:
        return line
    from rich.cells import set_cell_size

    return set_cell_size(line, max(0, columns_max - 1)).rstrip() + "…"


def exact(text: str) -> str:
    """The exact text, with control and invisible characters escaped."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _is_seen(char) else _written_out(char) for char in text)


def exact_line(text: str) -> str:
    """The exact text on one line: a line break is written out too."""
    return exact(text).replace("\n", "\\n")


def ascii_host(host: str) -> str:
    """A host name in ASCII: other letters look like these, so they're shown as DNS sees them."""
    if host.isascii():
        return host
    labels = re.split(r"[.\u3002\uff0e\uff61]", host)  # IDNA's four dots
    return ".".join(map(_ascii_label, labels))


def _ascii_label(label: str) -> str:
    plain = unicodedata.normalize("NFKC", label.lower())
    return plain if plain.isascii() else f"xn--{plain.encode('punycode').decode('ascii')}"


def _is_seen(char: str) -> bool:
    return char == "\n" or (char.isprintable() and not _UNSEEN.match(char))


def _written_out(char: str) -> str:
    return "\\t" if char == "\t" else char.encode("unicode_escape").decode("ascii")


def shown_path(path: bytes) -> str:
    """Return a path for people and JSON. A byte that isn't UTF-8 is shown as its number."""
    return path.decode("utf-8", "backslashreplace")
