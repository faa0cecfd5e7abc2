"""The chat's input history, stored in the data directory, readable only by its owner."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from prompt_toolkit.history import History

HISTORY = "chat-history"  # in the data directory
KEPT_MAX = 1000
BYTES_MAX = 4 * 1024 * 1024


class ChatHistory(History):
    """One JSON string a line, newest last; a line that cannot be read is passed over.

    `redact` removes secrets before a line is kept.
    """

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._path = path
        self._redact = redact
        # Nothing is loaded later: that would forget a line which was typed before.
        self._loaded = True

    def read(self) -> None:
        """Read the file, before there is a prompt: the first arrow key finds it there."""
        try:
            lines = self._path.read_bytes()[-BYTES_MAX:].splitlines()[-KEPT_MAX:]
        except FileNotFoundError:
            return
        if self._path.stat().st_size > 2 * BYTES_MAX:
            self._write(b"\n".join(lines) + b"\n", os.O_TRUNC)
        self._loaded_strings = [text for line in reversed(lines) if (text := _text(line))]

    def forget(self, text: str) -> int:
        """Remove the lines that have the text, and return how many; raises OSError."""
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return 0
        kept = [line for line in lines if text not in _text(line)]
        if len(kept) < len(lines):
            self._write(b"".join(line + b"\n" for line in kept), os.O_TRUNC)
        return len(lines) - len(kept)

    def load_history_strings(self) -> Iterable[str]:
        """See History."""
        return self._loaded_strings

    def store_string(self, string: str) -> None:
        """See History."""
        self._write(msgspec.json.encode(self._redact(string)) + b"\n", os.O_APPEND)

    def _write(self, data: bytes, how: int) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | how, 0o600)
        try:
            os.write(file, data)
        finally:
            os.close(file)


def _text(line: bytes) -> str:
    try:
        return msgspec.json.decode(line, type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
