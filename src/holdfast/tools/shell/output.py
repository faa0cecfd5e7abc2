"""A process's output: both ends in memory for the model, the whole on disk up to a limit.

Text as a terminal would leave it: no control codes, no overwritten progress bars. Linear in its length.
"""

import re
import tempfile
from codecs import getincrementaldecoder

from msgspec import Struct

from holdfast.interfaces.journal import Blobs
from holdfast.tools.offload import offload

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


WHOLE_BYTES_MAX = 32 * 1024 * 1024
_RAW_END_BYTES = 256 * 1024


class Shown(Struct, frozen=True):
    """How much of a long text the model sees."""

    head_chars: int = 10_000
    tail_chars: int = 20_000


class Capture:
    """Takes unlimited output in limited memory."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self._head = bytearray()
        self._tail = bytearray()
        # Unlinked from the start: a crash leaves nothing behind.
        self._whole = tempfile.SpooledTemporaryFile(max_size=_RAW_END_BYTES)  # noqa: SIM115 - closed in close
        self._disk_failed = ""

    def take(self, data: bytes) -> bool:
        """Keep what fits and drop the rest; it always takes more."""
        self._keep_whole(data)
        self.total_bytes += len(data)
        room = _RAW_END_BYTES - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * _RAW_END_BYTES:
            del self._tail[:-_RAW_END_BYTES]
        return False

    def text(self, shown: Shown | None = None) -> tuple[str, str]:
        """Return the text for the model, and a note about omitted output, if any."""
        shown = shown or Shown()
        if self.total_bytes == len(self._head) + len(self._tail):
            return shorten(cleaned(_decoded(self._head + self._tail)), shown)
        head = cleaned(_decoded(self._head))[: shown.head_chars]
        tail = cleaned(_decoded(self._tail))[-shown.tail_chars :]
        left_out = f"{self.total_bytes - len(head) - len(tail):,} of {self.total_bytes:,} bytes omitted"
        return f"{head}\n[… {left_out} here …]\n{tail}", left_out

    async def keep(self, blobs: Blobs) -> tuple[str, str]:
        """Store the whole as a blob; returns its name and a sentence about what is missing, if anything."""
        lack = ""
        if self._disk_failed:
            lack = f"Couldn't store the rest: {self._disk_failed}."
        elif self.total_bytes > WHOLE_BYTES_MAX:
            lack = f"Only the first {WHOLE_BYTES_MAX:,} bytes are stored."
        return await blobs.put_blob(await offload(self._read_whole)), lack

    def close(self) -> None:
        """Delete the file."""
        self._whole.close()

    def _keep_whole(self, data: bytes) -> None:
        room = WHOLE_BYTES_MAX - self.total_bytes
        if room <= 0 or self._disk_failed:
            return
        try:
            self._whole.write(data[:room])
        except OSError as error:
            # A full disk must not end the command: the ends are still in memory.
            self._disk_failed = error.strerror or "the disk failed"

    def _read_whole(self) -> bytes:
        self._whole.seek(0)
        return self._whole.read(WHOLE_BYTES_MAX)


def shorten(text: str, shown: Shown) -> tuple[str, str]:
    """The head and tail of a text that is too long, and a sentence about what was left out."""
    over = len(text) - shown.head_chars - shown.tail_chars
    if over <= 0:
        return text, ""
    left_out = f"{over:,} of {len(text):,} characters omitted"
    tail = text[len(text) - shown.tail_chars :]
    return f"{text[: shown.head_chars]}\n[… {left_out} here …]\n{tail}", left_out


def _decoded(data: bytearray) -> str:
    return data.decode("utf-8", "replace")
