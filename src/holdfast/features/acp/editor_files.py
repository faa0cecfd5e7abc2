"""Files as the editor has them, for people only: tools read and write files themselves.

An editor follows a path itself, outside the sandbox. If tools used it, a program of the agent that swaps a
folder for a link in that moment would decide what is read or written.
"""

import asyncio
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp import RequestError
from acp.interfaces import Client

from holdfast.tools.files.regular_files import read_regular

BYTES_MAX = 1024 * 1024
WAIT_S = 3.0


class EditorFiles:
    """The files that the editor has open for one session."""

    def __init__(self, editor: Client, session_id: str) -> None:
        self._editor = editor
        self._session_id = session_id

    async def text(self, path: Path) -> str | None:
        """The file as the editor has it; None if it can't say, or not in time."""
        try:
            async with asyncio.timeout(WAIT_S):
                found = await self._editor.read_text_file(session_id=self._session_id, path=str(path))
        except (RequestError, ConnectionError, TimeoutError, ValueError):
            return None
        return found.content if len(found.content) <= BYTES_MAX else None

    async def has_unsaved_changes(self, path: Path) -> bool:
        """Whether the editor has another text than the disk."""
        text = await self.text(path)
        saved = await asyncio.to_thread(_saved, path) if text is not None else None
        return text is not None and saved is not None and _lines(text) != _lines(saved)

    async def linked(self, uri: str) -> str | None:
        """The unsaved text of a file that the person links to; None if the disk has the same."""
        parts = urlsplit(uri)
        path = Path(unquote(parts.path))
        if parts.scheme != "file" or not path.is_absolute() or not await self.has_unsaved_changes(path):
            return None
        return await self.text(path)


def _saved(path: Path) -> str | None:
    try:
        return read_regular(path, bytes_max=BYTES_MAX).decode()
    except (OSError, UnicodeDecodeError):
        return None


def _lines(text: str) -> list[str]:
    """Editors end lines and files in their own way."""
    return text.rstrip("\r\n").splitlines()
