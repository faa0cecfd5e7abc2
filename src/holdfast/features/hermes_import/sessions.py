"""The conversations of hermes-agent (state.db) and of its web UI (one JSON file each), left as they are."""

from collections.abc import Iterator
from pathlib import Path

import apsw

from holdfast.features.hermes_import.database import DATABASE, sessions_of
from holdfast.features.hermes_import.home_files import OutsideHome, path_in_home
from holdfast.features.hermes_import.web_ui import PageFolder
from holdfast.features.transcripts.conversation import ImportedConversation

PAGE_FOLDERS = ("webui/sessions", "webui-mvp/sessions")


class HermesSessions:
    """All conversations under a home of hermes-agent, one at a time, since a store may be larger than memory.

    `page` names the place of the web UI, if it is another one; `problems` says what could not be read so far.
    """

    def __init__(self, home: Path, *, page: Path | None = None) -> None:
        self._home = home
        self._problems: dict[Path, Exception] = {}
        places = [(home, home / name) for name in PAGE_FOLDERS]
        if page:
            places.insert(0, (page, page / "sessions"))
        self._pages = [PageFolder(real) for root, path in places if (real := self._path_in_home(root, path))]

    @property
    def problems(self) -> list[str]:
        """Which files could not be read, and why."""
        found = dict(self._problems)
        for folder in self._pages:
            found |= folder.problems
        return [f"{path}: can't read the file: {error}" for path, error in found.items()]

    def read(self) -> Iterator[ImportedConversation]:
        """Each conversation once: where both stores have it, the one with more in it."""
        of_page = {session.session_id: len(session.messages) for session in self._of_pages()}
        taken: set[str] = set()
        for session in self._of_database():
            if len(session.messages) > of_page.get(session.session_id, -1):
                taken |= {session.session_id, *session.earlier}
                yield session
        for session in self._of_pages():
            if session.session_id not in taken:
                taken.add(session.session_id)
                yield session

    def _path_in_home(self, root: Path, path: Path) -> Path | None:
        try:
            return path_in_home(root, path)
        except OutsideHome as error:
            self._problems[path] = error
            return None

    def _of_database(self) -> Iterator[ImportedConversation]:
        path = self._path_in_home(self._home, self._home / DATABASE)
        if path is None or not path.is_file():
            return
        try:
            yield from sessions_of(path)
        except (apsw.Error, OSError) as error:
            self._problems[path] = error

    def _of_pages(self) -> Iterator[ImportedConversation]:
        for folder in self._pages:
            yield from folder.sessions()
