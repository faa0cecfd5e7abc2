"""The conversations of hermes-agent (state.db) and of its web UI (one JSON file each), left as they are.

The conversations of hermes-agent's web UI: one JSON file each, with what a compaction put aside.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import apsw
import msgspec
from msgspec.structs import replace

from holdfast.features.hermes_import.database import DATABASE, sessions_of
from holdfast.features.hermes_import.home_files import OutsideHome, path_in_home, read_home_file
from holdfast.features.hermes_import.messages import (
    PROGRAM,
    SOURCE,
    is_summary,
    message_of,
    ms_of,
    table_of,
    title_of,
)
from holdfast.features.transcripts.conversation import ImportedConversation, ImportedMessage, ImportedToolCall
from holdfast.tools.files.regular_files import TooLarge

FILE_BYTES_MAX = 256 * 1024 * 1024
CHAIN_MAX = 1000  # how often a conversation can have been continued in a new file
_NAME = re.compile(r"[\w-]{1,256}", re.ASCII)

Table = Mapping[str, object]


class _Line(msgspec.Struct):
    """The field of a file that names the file it continues."""

    parent_session_id: object = None


class PageFolder:
    """A folder of such files; `problems` says which could not be read."""

    def __init__(self, folder: Path) -> None:
        self._paths = [path for path in sorted(folder.glob("*.json")) if not path.name.startswith("_")]
        self._parents: frozenset[str] | None = None
        self.problems: dict[Path, Exception] = {}

    def sessions(self) -> Iterator[ImportedConversation]:
        """All conversations; a file that a compaction left is part of the one that continues it."""
        if self._parents is None:
            self._parents = frozenset(name for path in self._paths if (name := _parent_in(path)) != path.stem)
        for path in self._paths:
            try:
                fields = _read(path)
                if not (fields.get("pre_compression_snapshot") and path.stem in self._parents):
                    yield _session(path, fields)
            except (OSError, ValueError) as error:
                self.problems[path] = error


def _parent_in(path: Path) -> str:
    """Which file it continues; a file that can't be read is reported when it is imported itself."""
    try:
        line = msgspec.json.decode(read_home_file(path.parent, path, bytes_max=FILE_BYTES_MAX), type=_Line)
    except (OSError, ValueError, RecursionError):
        return ""
    return _name(line.parent_session_id)


def _session(path: Path, fields: Table) -> ImportedConversation:
    chain = _chain(path, fields)
    messages: list[ImportedMessage] = []
    for one in chain:
        messages = _joined(messages, _messages(one))
    if pending := _pending(fields, messages):
        messages.append(pending)
    return ImportedConversation(
        session_id=str(fields.get("session_id") or path.stem),
        program=PROGRAM,
        source=SOURCE,
        messages=tuple(messages),
        title=title_of(fields.get("title")),
        model=str(fields.get("model") or ""),
        workspace=str(fields.get("workspace") or ""),
        pinned=fields.get("pinned") is True,
        archived=fields.get("archived") is True,
        created_ms=ms_of(chain[0].get("created_at")),
        origin=str(path),
    )


def _read(path: Path) -> Table:
    """The object in a file; raises OSError or ValueError."""
    try:
        found = msgspec.json.decode(read_home_file(path.parent, path, bytes_max=FILE_BYTES_MAX))
    except TooLarge as error:
        raise ValueError("it is too large") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError("it contains no session")  # noqa: TRY004  # a file, not an argument
    return cast("Table", found)


def _name(value: object) -> str:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ""


def _chain(path: Path, fields: Table) -> list[Table]:
    """Return the files from before each compaction, then the file itself. A branch is separate."""
    chain, seen = [fields], {path.stem}
    while len(chain) < CHAIN_MAX and (name := _name(chain[0].get("parent_session_id"))) not in {"", *seen}:
        try:
            before = _read(path.with_name(f"{name}.json"))
        except (OSError, ValueError):
            break  # reported when the file itself is read
        if not before.get("pre_compression_snapshot"):
            break
        seen.add(name)
        chain.insert(0, before)
    return chain


def _joined(before: list[ImportedMessage], after: list[ImportedMessage]) -> list[ImportedMessage]:
    """Both, each message once: the newer file may repeat all of the older one, its end, or a summary."""
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    seen = {_identity(message) for message in before if message.at_ms}
    rest = [message for message in after[same:] if not message.at_ms or _identity(message) not in seen]
    return [*before, *(message for message in rest if not before or not is_summary(message.text))]


def _identity(message: ImportedMessage) -> tuple[object, ...]:
    return (message.role, message.text, message.at_ms, message.tool_call_id, len(message.tool_calls))


def _messages(fields: Table) -> list[ImportedMessage]:
    given = fields.get("messages")
    tables = [table_of(one) for one in cast("list[object]", given)] if isinstance(given, list) else []
    listed = None if any(_has_tools(one) for one in tables) else fields.get("tool_calls")
    shown = _shown_tools(listed)
    messages: list[ImportedMessage] = []
    for index, one in enumerate(tables):
        message = message_of(one)
        if message is not None:
            cut_off = _listed_tools(one.get("_partial_tool_calls"))
            messages += [*_told(shown.get(index, [])), *_told(cut_off), message]
    return messages


def _has_tools(message: Table) -> bool:
    return message.get("role") == "tool" or bool(message.get("tool_calls"))


def _shown_tools(value: object) -> Mapping[int, list[Table]]:
    """The tool calls that the page shows beside an answer, where its messages hold none themselves."""
    found: dict[int, list[Table]] = {}
    for call in _listed_tools(value):
        index = call.get("assistant_msg_idx")
        if isinstance(index, int):
            found.setdefault(index, []).append(call)
    return found


def _listed_tools(value: object) -> list[Table]:
    calls = [table_of(one) for one in cast("list[object]", value)] if isinstance(value, list) else []
    return [call for call in calls if isinstance(call.get("name"), str) and call["name"]]


def _told(calls: list[Table]) -> Iterator[ImportedMessage]:
    """Such calls as messages: all of them, then the beginning of each result, which is all that is kept."""
    named = [(f"{index} {call.get('tid') or call.get('id') or ''}", call) for index, call in enumerate(calls)]
    if named:
        tools = tuple(
            ImportedToolCall(call_id, str(call["name"]), dict(table_of(call.get("args"))))
            for call_id, call in named
        )
        yield ImportedMessage(role="assistant", tool_calls=tools)
    for call_id, call in named:
        result = call.get("snippet") or call.get("preview")
        if isinstance(result, str) and call.get("done", True):
            yield ImportedMessage(role="tool", text=result, tool_call_id=call_id)


def _pending(fields: Table, messages: list[ImportedMessage]) -> ImportedMessage | None:
    """A message that was sent but isn't listed, because its answer never came."""
    message = message_of({"role": "user", "content": fields.get("pending_user_message")})
    if message is None or not message.text.strip():
        return None
    last = next((one for one in reversed(messages) if one.role == "user"), None)
    is_there = last is not None and last is messages[-1] and last.text.strip() == message.text.strip()
    return None if is_there else replace(message, at_ms=ms_of(fields.get("pending_started_at")))


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
        """Return the unreadable files, and why."""
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
