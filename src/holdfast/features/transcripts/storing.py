"""Stores imported conversations, each once; or previews what storing them would do."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, field
from rich.progress import Progress, SpinnerColumn

from holdfast.cli.doctor.findings import counted
from holdfast.features.transcripts.conversation import ImportedConversation
from holdfast.features.transcripts.log import Written, written
from holdfast.host.lock import DirectoryLock
from holdfast.interfaces.journal import Appended, IfSessionNew
from holdfast.journal.sqlite.reader import SqliteReader
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.redaction import NO_SECRETS, Redactor
from holdfast.server.problems import Problem
from holdfast.server.transport.bodies import checked_session_id

Fate: TypeAlias = Literal["imported", "known", "empty", "unfit"]
WorkspaceOf: TypeAlias = Callable[[ImportedConversation], str]  # empty for the default one; blocks


class ImportCounts(Struct):
    """The number of conversations by their fate, and of messages and files that couldn't be imported."""

    fates: Counter[Fate] = field(default_factory=Counter["Fate"])
    lost: int = 0

    def count(self, fate: Fate, log: Written) -> None:
        """Count one more conversation."""
        self.fates[fate] += 1
        self.lost += log.lost if fate == "imported" else 0

    def lines(self) -> Iterator[str]:
        """Yield them as sentences."""
        yield f"{counted(self.fates['imported'], 'session')} imported, {self.fates['known']} already there"
        left: Mapping[Fate, str] = {
            "empty": "without a message from a person",
            "unfit": "with an unusable id",
        }
        for fate, why in left.items():
            if self.fates[fate]:
                yield f"skipped: {counted(self.fates[fate], 'session')} {why}"
        if self.lost:
            one, many = "attached file, sound or stray message", "attached files, sounds or stray messages"
            yield f"skipped: {counted(self.lost, one, many)}"


def no_workspace(_conversation: ImportedConversation) -> str:
    """Continue in the default workspace."""
    return ""


def own_workspace(conversation: ImportedConversation) -> str:
    """Continue in the conversation's directory, if it still exists."""
    path = conversation.workspace
    return path if path.startswith("/") and Path(path).is_dir() else ""


def store_conversations(
    found: Iterator[ImportedConversation],
    data_dir: Path,
    *,
    hidden: Redactor = NO_SECRETS,
    workspace_of: WorkspaceOf = no_workspace,
) -> ImportCounts:
    """Store all of them; raises DirectoryBusy, JournalError or OSError."""
    bar = Progress("{task.description}", SpinnerColumn(), transient=True, disable=not sys.stdout.isatty())
    with DirectoryLock(data_dir), bar:
        task = bar.add_task("Sessions: 0", total=None)

        def on_each(number: int) -> None:
            bar.update(task, description=f"Sessions: {number}")

        def log_of(conversation: ImportedConversation) -> Written:
            return written(conversation, hidden=hidden, workspace=workspace_of(conversation))

        return asyncio.run(_append_all(found, data_dir, hidden=hidden, log_of=log_of, on_each=on_each))


def preview_conversations(found: Iterator[ImportedConversation], data_dir: Path) -> ImportCounts:
    """Return the counts of an import, without the lock and without writes."""
    return asyncio.run(_preview(found, data_dir / "holdfast.db"))


async def _append_all(
    found: Iterator[ImportedConversation],
    data_dir: Path,
    *,
    hidden: Redactor,
    log_of: Callable[[ImportedConversation], Written],
    on_each: Callable[[int], None],
) -> ImportCounts:
    counts = ImportCounts()
    store = await SqliteStore.open(data_dir / "holdfast.db", hidden)
    try:
        while (conversation := await asyncio.to_thread(next, found, None)) is not None:
            log = await asyncio.to_thread(log_of, conversation)
            fate = _fate(conversation, log)
            if fate == "imported":
                fate = await _append(store, conversation.session_id, log)
            counts.count(fate, log)
            on_each(counts.fates.total())
    finally:
        await store.close()
    return counts


async def _append(store: SqliteStore, session_id: str, log: Written) -> Fate:
    """Store the whole log in one transaction, unless the session exists: a second import adds nothing."""
    if await store.session(session_id) is not None:
        return "known"
    for data in log.blobs.values():
        await store.put_blob(data)
    fence = await store.claim(session_id)
    result = await store.append_run(session_id, log.events, fence=fence, when=[IfSessionNew()])
    return "imported" if isinstance(result, Appended) else "known"


async def _preview(found: Iterator[ImportedConversation], database: Path) -> ImportCounts:
    reader = SqliteReader(database) if await asyncio.to_thread(database.exists) else None
    counts = ImportCounts()
    try:
        while (conversation := await asyncio.to_thread(next, found, None)) is not None:
            log = await asyncio.to_thread(written, conversation)
            fate = _fate(conversation, log)
            if fate == "imported" and reader is not None and await reader.session(conversation.session_id):
                fate = "known"
            counts.count(fate, log)
    finally:
        if reader is not None:
            await reader.close()
    return counts


def _fate(conversation: ImportedConversation, log: Written) -> Fate:
    try:
        checked_session_id(conversation.session_id)
    except Problem:
        return "unfit"
    return "imported" if log.events else "empty"
