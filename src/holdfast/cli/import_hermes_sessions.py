"""The conversations of hermes-agent (state.db) and of its web UI (one JSON file each), left as they are."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import apsw
import msgspec

from holdfast.cli.import_hermes_database import DATABASE, sessions_of, title_of
from holdfast.cli.import_hermes_messages import HermesMessage, HermesSession, message_of, ms_of

PAGE_FOLDERS = ("webui/sessions", "webui-mvp/sessions")
FILE_BYTES_MAX = 256 * 1024 * 1024


class HermesSessions:
    """All conversations under a home of hermes-agent, one at a time, since a store may be larger than memory.

    `problems` says what could not be read so far.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self.problems: list[str] = []

    def read(self) -> Iterator[HermesSession]:
        """Each conversation once: where both stores have it, the one with more in it."""
        of_page = {session.session_id: len(session.messages) for session in self._of_page()}
        taken: set[str] = set()
        for session in self._of_database():
            if len(session.messages) > of_page.get(session.session_id, -1):
                taken.add(session.session_id)
                yield session
        for session in self._of_page():
            if session.session_id not in taken:
                taken.add(session.session_id)
                yield session

    def _problem(self, path: Path, error: Exception) -> None:
        text = f"{path}: cannot be read: {error}"
        if text not in self.problems:
            self.problems.append(text)

    def _of_database(self) -> Iterator[HermesSession]:
        path = self._home / DATABASE
        if not path.is_file():
            return
        try:
            yield from sessions_of(path)
        except (apsw.Error, OSError) as error:
            self._problem(path, error)

    def _of_page(self) -> Iterator[HermesSession]:
        for folder in PAGE_FOLDERS:
            for path in sorted((self._home / folder).glob("*.json")):
                if not path.name.startswith("_"):
                    try:
                        yield from _of_file(path)
                    except (OSError, ValueError) as error:
                        self._problem(path, error)


def _of_file(path: Path) -> Iterator[HermesSession]:
    if path.stat().st_size > FILE_BYTES_MAX:
        raise ValueError("it is too large")
    try:
        found = msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is no JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError("it holds no session")  # noqa: TRY004  # a file, not an argument
    fields = cast("dict[str, object]", found)
    if fields.get("pre_compression_snapshot"):
        return
    given = fields.get("messages")
    listed = cast("list[object]", given) if isinstance(given, list) else []
    messages: list[HermesMessage] = []
    for one in listed:
        message = message_of(cast("Mapping[str, object]", one)) if isinstance(one, dict) else None
        messages += [message] if message is not None else []
    yield HermesSession(
        session_id=str(fields.get("session_id") or path.stem),
        messages=tuple(messages),
        title=title_of(fields.get("title")),
        model=str(fields.get("model") or ""),
        workspace=str(fields.get("workspace") or ""),
        pinned=fields.get("pinned") is True,
        archived=fields.get("archived") is True,
        created_ms=ms_of(fields.get("created_at")),
        origin=str(path),
    )
