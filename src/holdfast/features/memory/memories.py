"""The memories of a server: each scope has a log, and every change of it is an event."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast import events as e
from holdfast.features.memory.events import MemoryOrigin, MemoryProposed, MemoryRejected, MemoryWritten
from holdfast.features.memory.state import DOCUMENT, NOTES_MAX, Memory, chars_max, edited, fold, undone
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.ids import new_epoch, token_hex
from holdfast.interfaces.journal import IfSessionKnown, IfSessionNew, Store
from holdfast.journal.follow import KeptValues
from holdfast.values import MemoryMode

if TYPE_CHECKING:
    from holdfast.agent.deps import AgentDeps
    from holdfast.interfaces.feature import FeatureContext

MEMORY = "memory"  # the source of the logs
READ_AT_ONCE = 1_000
TRIES_MAX = 5  # others may write at the same time
NOTE_KEPT = "memory-left/"  # what is left of a memory while its log is being replaced
OTHERS_S = 0.5  # after this time, who left such a note is taken for dead
DONE = b""  # in place of that note, once it is in the new log
BUSY = "The memory keeps changing. Try again."
PROPOSALS_MAX = 100
SKILL_CHARS_MAX = 20_000

ScopeKind: TypeAlias = Literal["user", "workspace", "chat", "skills"]


class MemoryScope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The owner and subject of a memory; `name` is the workspace or the chat.

    The memory of a chat on a platform belongs to no key.
    """

    kind: ScopeKind
    owner: str = ""  # the name of an API key
    name: str = ""

    @property
    def log_id(self) -> str:
        """The id of its log."""
        return _log_id(self)


@lru_cache(maxsize=1_024)
def _log_id(scope: MemoryScope) -> str:
    place = msgspec.json.encode([scope.kind, scope.owner, scope.name])
    return f"mem_{sha256(place).hexdigest()[:24]}"


class NotRemembered(Exception):
    """A change that can't be made; the text says why, for people and for the model."""


class MemoryEdit(Struct, frozen=True, kw_only=True):
    """One change of a document: `new` in place of `old`, or added if `old` is empty."""

    change_id: str
    document: str
    new: str
    old: str = ""
    reason: str = ""
    origin: MemoryOrigin | None = None


class _Left(msgspec.Struct, frozen=True):
    """The rest of a memory after something was forgotten."""

    texts: dict[str, str]
    proposals: tuple[MemoryProposed, ...] = ()
    changes: dict[str, str] = {}  # the last change of each document, which its writer still looks for


def user_scope(owner: str) -> MemoryScope:
    """Return the scope of the memory about the caller."""
    return MemoryScope(kind="user", owner=owner)


def workspace_scope(owner: str, workspace: Path) -> MemoryScope:
    """Return the scope of the caller's memory about a workspace."""
    return MemoryScope(kind="workspace", owner=owner, name=str(workspace))


def chat_scope(chat: str) -> MemoryScope:
    """Return the scope of a chat's memory, which is separate from all others."""
    return MemoryScope(kind="chat", name=chat)


@lru_cache(maxsize=1_024)
def skills_scope(owner: str, chat: str = "") -> MemoryScope:
    """Return the scope of skills that agents changed or added, for the caller or in a chat."""
    return MemoryScope(kind="skills", name=chat) if chat else MemoryScope(kind="skills", owner=owner)


@lru_cache(maxsize=1_024)
def scopes_shown(owner: str, workspace: Path, chat: str) -> tuple[MemoryScope, ...]:
    """The memories that a run has; in a chat there is only the chat's, because others read along."""
    return (chat_scope(chat),) if chat else (user_scope(owner), workspace_scope(owner, workspace))


class Memories:
    """Reads and changes memories."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._kept: KeptValues[Memory] = KeptValues(store.watch)

    async def shown(self, scope: MemoryScope) -> Memory:
        """The memory for a run to read; its log is read only if it has changed."""
        return await self._kept.get(_log_id(scope), lambda: self.load(scope))

    async def load(self, scope: MemoryScope, *, upto_seq: int = 0) -> Memory:
        """The memory now, or as it was after a seq."""
        pairs = await self._events(scope)
        if not pairs and not upto_seq and await self._finish_forgetting(scope):
            return await self.load(scope)
        return fold(pair for pair in pairs if not upto_seq or pair[0] <= upto_seq)

    async def has(self, scope: MemoryScope, text: str) -> bool:
        """Whether the log has the text anywhere: also in its history and in what was refused."""
        await self.load(scope)  # a log that is just being replaced comes back first
        wanted = msgspec.json.encode(text)[1:-1]
        return any(wanted in msgspec.json.encode(event) for _, event in await self._events(scope))

    async def _events(self, scope: MemoryScope) -> Sequence[tuple[int, e.Event]]:
        pairs: list[tuple[int, e.Event]] = []
        while True:
            after = pairs[-1][0] if pairs else 0
            records = await self._store.read(scope.log_id, after=after, limit=READ_AT_ONCE)
            pairs += [(record.seq, record.event) for record in records]
            if len(records) < READ_AT_ONCE:
                return pairs

    async def scopes(self, owner: str) -> Sequence[MemoryScope]:
        """All memories of this owner that have a log."""
        return [one for one in await self._known() if one.owner == owner and not _is_of_chat(one)]

    async def scopes_of_chats(self) -> Sequence[MemoryScope]:
        """All memories of chats that have a log."""
        return [one for one in await self._known() if _is_of_chat(one)]

    async def _known(self) -> Sequence[MemoryScope]:
        rows = await self._store.logs(MEMORY)
        return [msgspec.json.decode(row.workspace, type=MemoryScope) for row in rows]

    async def propose(
        self, scope: MemoryScope, edit: MemoryEdit, *, because: tuple[str, ...], shown_before: str = ""
    ) -> None:
        """Store what the agent wants to remember; raises NotRemembered.

        `shown_before` is what people compare with, if the memory itself has nothing yet.
        """
        memory = await self.load(scope)
        if memory.knows(edit.change_id):
            return  # before a crash
        if len(memory.proposals) >= PROPOSALS_MAX:
            raise NotRemembered(f"{PROPOSALS_MAX} proposals are already pending.")
        before, after = _change(scope, memory, edit)
        proposed = MemoryProposed(
            at_ms=self._clock.now_ms(),
            change_id=edit.change_id,
            document=edit.document,
            before=before or shown_before,
            after=after,
            old=edit.old,
            new=edit.new,
            reason=edit.reason,
            because=because,
            origin=edit.origin,
        )
        await self._append(scope, proposed)

    async def write(
        self,
        scope: MemoryScope,
        edit: MemoryEdit,
        *,
        how: Literal["auto", "accepted", "imported"],
        by: str = "",
    ) -> Memory:
        """Make the change; raises NotRemembered."""
        for _ in range(TRIES_MAX):
            memory = await self.load(scope)
            if edit.change_id in memory.settled:
                return _made(memory, edit.change_id)
            before, after = _change(scope, memory, edit)
            written = MemoryWritten(
                at_ms=self._clock.now_ms(),
                change_id=edit.change_id,
                document=edit.document,
                before=before,
                after=after,
                how=how,
                reason=edit.reason,
                by=by,
                origin=edit.origin,
            )
            await self._append(scope, written)
        memory = await self.load(scope)
        if edit.change_id not in memory.settled:
            raise NotRemembered(BUSY)
        return _made(memory, edit.change_id)

    async def decide(
        self, scope: MemoryScope, *, accept: Sequence[str] = (), reject: Sequence[str] = (), by: str = ""
    ) -> Memory:
        """Accept and reject proposals; raises NotRemembered at the first that can't be answered like this.

        The second person with a different answer gets an error.
        """
        memory = await self.load(scope)
        for change_id in accept:
            if change_id in memory.settled:
                _made(memory, change_id)
                continue
            proposed = memory.proposals.get(change_id)
            if proposed is None:
                raise NotRemembered("No open proposal has this ID.")
            edit = MemoryEdit(
                change_id=change_id,
                document=proposed.document,
                new=proposed.new,
                old=proposed.old,
                reason=proposed.reason,
                origin=proposed.origin,
            )
            memory = await self.write(scope, edit, how="accepted", by=by)
        for change_id in reject:
            if not memory.knows(change_id):
                raise NotRemembered("No open proposal has this ID.")
            if change_id in memory.proposals:
                rejected = MemoryRejected(at_ms=self._clock.now_ms(), change_id=change_id, by=by)
                await self._append(scope, rejected)
                memory = await self.load(scope)
            if memory.has_made(change_id):
                raise NotRemembered("This was already accepted. Undo it in the history.")
        return await self.load(scope)

    async def put(
        self, scope: MemoryScope, document: str, text: str, *, by: str, seen_seq: int = 0
    ) -> Memory:
        """Give a document another text, as a person wrote it; raises NotRemembered, as `roll_back` does."""
        _check_size(scope, document, text)
        return await self._put(scope, lambda _: {document: text}, by=by, seen_seq=seen_seq)

    async def roll_back(self, scope: MemoryScope, to_seq: int, *, by: str, seen_seq: int = 0) -> Memory:
        """Make all documents what they were after this seq, to the byte.

        Raises NotRemembered if there is no such change, or if `seen_seq` is given and something has changed
        since.
        """
        if to_seq > await self._store.last_seq(scope.log_id):
            raise NotRemembered(f"Change {to_seq} doesn't exist. The history lists changes by number.")
        then = (await self.load(scope, upto_seq=max(1, to_seq))).texts if to_seq else {}

        def wanted(now: Memory) -> Mapping[str, str]:
            return {name: then.get(name, "") for name in {**now.texts, **then}}

        return await self._put(scope, wanted, by=by, seen_seq=seen_seq, to_seq=to_seq)

    async def undo(self, scope: MemoryScope, change_id: str, *, by: str) -> Memory:
        """Take back one change and keep all others; raises NotRemembered."""

        def wanted(now: Memory) -> Mapping[str, str]:
            made = [event for _, event in now.history if event.change_id == change_id]
            if not made:
                raise NotRemembered("No change has this ID.")
            event = made[-1]
            text = undone(now.texts.get(event.document, ""), event.before, event.after)
            if text is None:
                raise NotRemembered("Later changes depend on this one. Roll back to before it instead.")
            return {event.document: text}

        return await self._put(scope, wanted, by=by, to_seq=0)

    async def _put(
        self,
        scope: MemoryScope,
        wanted: Callable[[Memory], Mapping[str, str]],
        *,
        by: str,
        seen_seq: int = 0,
        to_seq: int = -1,
    ) -> Memory:
        """Write what is wanted; each try looks at the newest memory, because others write too."""
        for _ in range(TRIES_MAX):
            memory = await self.load(scope)
            texts = wanted(memory)
            changed = {name: text for name, text in texts.items() if memory.texts.get(name, "") != text}
            if not changed:
                return memory
            if seen_seq and memory.last_seq != seen_seq:
                raise NotRemembered("The memory has changed since you read it. Read it again.")
            await self._append(
                scope,
                *[
                    MemoryWritten(
                        at_ms=self._clock.now_ms(),
                        change_id=f"chg_{token_hex(12)}",
                        document=name,
                        before=memory.texts.get(name, ""),
                        after=text,
                        how="edited" if to_seq < 0 else "rolled_back",
                        by=by,
                        to_seq=max(0, to_seq),
                    )
                    for name, text in changed.items()
                ],
            )
            now = await self.load(scope)
            if all(now.texts.get(name, "") == text for name, text in changed.items()):
                return now
        raise NotRemembered(BUSY)

    async def forget(self, scope: MemoryScope, text: str) -> Sequence[str]:
        """Remove the log, or only the lines with the text. Returns the source sessions.

        Raises NotRemembered if the memory keeps changing. The rest is written to a new log, even after a
        crash in between.
        """
        note, sessions = NOTE_KEPT + scope.log_id, dict[str, None]()
        for _ in range(TRIES_MAX):
            # Read before the memory: another writer may have seen a newer memory in the meantime.
            pending = await self._pending(note)
            memory = await self.load(scope)
            sessions |= dict.fromkeys(_sessions_of(memory, text))
            left = msgspec.json.encode(_left(memory, text) if text else _Left({}))
            if not await self._store.swap_note(note, left, expected=pending):
                continue
            if not await self._store.purge(scope.log_id, only=memory.end):
                await self._store.swap_note(note, DONE, expected=left)
                continue
            await self._finish_forgetting(scope)
            # Someone who forgot something else at the same time may have brought it back.
            if not _has_any_of(await self.load(scope), memory, text):
                return tuple(sessions)
        raise NotRemembered(BUSY)

    async def _pending(self, note: str) -> bytes | None:
        """The note that is there; one that someone else still works on gets the time to be done."""
        pending = await self._store.note(note)
        if pending:
            await self._clock.sleep_s(OTHERS_S)
            pending = await self._store.note(note)
        return pending

    async def _finish_forgetting(self, scope: MemoryScope) -> bool:
        """Begin the new log with what is left, unless someone else has; whether there is a log now."""
        raw = await self._store.note(NOTE_KEPT + scope.log_id)
        if not raw:
            return False
        left = msgspec.json.decode(raw, type=_Left)
        written = [
            MemoryWritten(
                at_ms=self._clock.now_ms(),
                change_id=left.changes.get(name) or f"chg_{token_hex(12)}",
                document=name,
                before="",
                after=words,
                how="kept",
            )
            for name, words in left.texts.items()
        ]
        if written or left.proposals:
            begun = [self._created(scope), *written, *left.proposals]
            await self._store.append(scope.log_id, begun, when=[IfSessionNew()])
        # Not one that someone has put in its place, who goes on to purge what was just written.
        await self._store.swap_note(NOTE_KEPT + scope.log_id, DONE, expected=raw)
        return bool(written or left.proposals)

    def _created(self, scope: MemoryScope) -> e.SessionCreated:
        # Not as the title, by which people's searches would find it.
        about = msgspec.json.encode(scope).decode()
        return e.SessionCreated(at_ms=self._clock.now_ms(), epoch=new_epoch(), source=MEMORY, workspace=about)

    async def _append(self, scope: MemoryScope, *inputs: e.Input) -> None:
        if not await self._store.last_seq(scope.log_id):
            # Before anything new: what is left is written over nothing.
            await self._finish_forgetting(scope)
            # Someone else may create it at the same time: then this has no effect.
            await self._store.append(scope.log_id, [self._created(scope)], when=[IfSessionNew()])
        await self._store.append(scope.log_id, inputs, when=[IfSessionKnown()])


class OpenMemory(Struct, frozen=True):
    """The memories of a server. `mode`: whether runs can save memories, and whether that needs approval."""

    mode: MemoryMode
    memories: Memories


@asynccontextmanager
async def open_memory(context: "FeatureContext") -> AsyncGenerator[OpenMemory]:
    """The memories of a server."""
    yield OpenMemory(context.settings.agent.memory, Memories(context.store, context.clock))


def memory_of(deps: "AgentDeps") -> OpenMemory:
    """Return the memories of these agents."""
    return deps.features.get(MEMORY) or OpenMemory("off", Memories(deps.store, deps.clock))


def _is_of_chat(scope: MemoryScope) -> bool:
    return scope.kind == "chat" or (scope.kind == "skills" and bool(scope.name))


def _made(memory: Memory, change_id: str) -> Memory:
    """The memory, if the change was made; raises NotRemembered if it was rejected."""
    if not memory.has_made(change_id):
        raise NotRemembered("This was already rejected.")
    return memory


def _change(scope: MemoryScope, memory: Memory, edit: MemoryEdit) -> tuple[str, str]:
    """The text before and after; raises NotRemembered."""
    before = memory.texts.get(edit.document, "")
    if scope.kind == "skills" and before != edit.old:
        raise NotRemembered("The skill has changed since this was proposed. Propose it again.")
    after = edit.new if scope.kind == "skills" else edited(before, edit.old, edit.new)
    if after is None:
        raise NotRemembered("The text to replace must occur exactly once in the memory.")
    if edit.document not in memory.texts and len(memory.notes) >= NOTES_MAX:
        raise NotRemembered(f"The limit of {NOTES_MAX} notes is reached. Replace or remove one.")
    _check_size(scope, edit.document, after)
    return before, after


def _check_size(scope: MemoryScope, document: str, text: str) -> None:
    most = SKILL_CHARS_MAX if scope.kind == "skills" else chars_max(document)
    if len(text) > most:
        what = "skill" if scope.kind == "skills" else "document" if document == DOCUMENT else "note"
        raise NotRemembered(
            f"The {what} would have {len(text):,} characters; the limit is {most:,}. Replace or shorten "
            "something."
        )


def _sessions_of(memory: Memory, text: str) -> tuple[str, ...]:
    """The sessions that the text came from, or everything if it is empty."""
    written = [event for _, event in memory.history if (text in event.after) != (text in event.before)]
    proposed = [one for one in memory.proposals.values() if text in f"{one.old}\n{one.new}\n{one.reason}"]
    if not text:
        written = [event for _, event in memory.history]
    origins = [one.origin for one in (*written, *proposed) if one.origin is not None]
    return tuple(dict.fromkeys(origin.session_id for origin in origins))


def _has_any_of(now: Memory, before: Memory, text: str) -> bool:
    """Return whether the text to forget is there or, if it's empty, anything at all."""
    if not text:
        return bool(
            now.texts.items() & before.texts.items() or now.proposals.keys() & before.proposals.keys()
        )
    left = _left(now, text)
    return left.texts != dict(now.texts) or len(left.proposals) != len(now.proposals)


def _left(memory: Memory, text: str) -> _Left:
    """Return the memory without the text."""
    texts = {name: _without(words, text) for name, words in memory.texts.items() if text not in name}
    kept = {name: words for name, words in texts.items() if words}
    proposals = (_left_proposal(one, kept, text) for one in memory.proposals.values())
    changes = {event.document: event.change_id for _, event in memory.history}
    return _Left(kept, tuple(one for one in proposals if one is not None), changes)


def _left_proposal(one: MemoryProposed, kept: Mapping[str, str], text: str) -> MemoryProposed | None:
    """The proposal without the text; None if it is about the text."""
    if any(text in words for words in (one.document, one.old, one.new, one.reason, *one.because)):
        return None
    if text not in one.before and text not in one.after:
        return one
    before = kept.get(one.document, "")
    after = edited(before, one.old, one.new)
    return None if after is None else replace(one, before=before, after=after)


def _without(words: str, text: str) -> str:
    """The lines that don't have the text; one that spans lines is cut out."""
    kept = [line for line in words.replace(text, "").split("\n") if text not in line]
    whole = [line for line in words.split("\n") if text not in line]
    return "\n".join(whole if "\n" not in text else kept).strip()
