"""The memories of a server: each scope has a log, and every change of it is an event."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from holdfast import events as e
from holdfast.folds.memory import DOCUMENT, NOTES_MAX, Memory, chars_max, edited, fold
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.ids import memory_id, new_epoch, token_hex
from holdfast.interfaces.journal import IfSessionKnown, IfSessionNew, Store
from holdfast.values import MEMORY, MemoryOrigin

READ_AT_ONCE = 1_000
TRIES_MAX = 5  # others may write at the same time
NOTE_KEPT = "memory-kept/"  # what is left of a memory while its log is being replaced
PROPOSALS_MAX = 100
SKILL_CHARS_MAX = 20_000

ScopeKind: TypeAlias = Literal["user", "workspace", "chat", "skills"]


class MemoryScope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whose memory it is, and what it is about; `name` is the workspace or the chat."""

    kind: ScopeKind
    owner: str = ""  # the name of an API key
    name: str = ""

    @property
    def log_id(self) -> str:
        """The id of its log."""
        return memory_id(msgspec.json.encode([self.kind, self.owner, self.name]).decode())


class NotRemembered(Exception):
    """A change that can't be made; the text says why, for people and for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEdit:
    """One change of a document: `new` in place of `old`, or added if `old` is empty."""

    change_id: str
    document: str
    new: str
    old: str = ""
    reason: str = ""
    origin: MemoryOrigin | None = None


def user_scope(owner: str) -> MemoryScope:
    """What is known about the one who asks."""
    return MemoryScope(kind="user", owner=owner)


def workspace_scope(owner: str, workspace: Path) -> MemoryScope:
    """What is known about a workspace, to the one who asks."""
    return MemoryScope(kind="workspace", owner=owner, name=str(workspace))


def skills_scope(owner: str) -> MemoryScope:
    """What the agents of the one who asks changed in skills, and the skills that they added."""
    return MemoryScope(kind="skills", owner=owner)


class Memories:
    """Reads and changes memories."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def load(self, scope: MemoryScope, *, upto_seq: int = 0) -> Memory:
        """The memory now, or as it was after a seq."""
        pairs: list[tuple[int, e.Event]] = []
        while True:
            after = pairs[-1][0] if pairs else 0
            records = await self._store.read(scope.log_id, after=after, limit=READ_AT_ONCE)
            pairs += [(record.seq, record.event) for record in records]
            if len(records) < READ_AT_ONCE:
                break
        if not pairs and not upto_seq:
            await self._finish_forgetting(scope)
        return fold(pair for pair in pairs if not upto_seq or pair[0] <= upto_seq)

    async def scopes(self, owner: str) -> Sequence[MemoryScope]:
        """All memories of this owner that have a log."""
        rows = await self._store.logs(MEMORY)
        found = [msgspec.json.decode(row.workspace, type=MemoryScope) for row in rows]
        return [scope for scope in found if scope.owner == owner and scope.kind != "chat"]

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
            raise NotRemembered(f"{PROPOSALS_MAX} proposals wait for the user already.")
        before, after = _change(scope, memory, edit)
        proposed = e.MemoryProposed(
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
                return memory
            before, after = _change(scope, memory, edit)
            written = e.MemoryWritten(
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
            raise NotRemembered("The memory is changed by others all the time. Try again.")
        return memory

    async def decide(
        self, scope: MemoryScope, *, accept: Sequence[str] = (), reject: Sequence[str] = (), by: str = ""
    ) -> Memory:
        """Accept and reject proposals; raises NotRemembered at the first that can't be made."""
        memory = await self.load(scope)
        for change_id in accept:
            proposed = memory.proposals.get(change_id)
            if proposed is None:
                raise NotRemembered("There is no open proposal with this id.")
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
            if change_id in memory.proposals:
                rejected = e.MemoryRejected(at_ms=self._clock.now_ms(), change_id=change_id, by=by)
                await self._append(scope, rejected)
        return await self.load(scope)

    async def put(self, scope: MemoryScope, document: str, text: str, *, by: str) -> Memory:
        """Give a document another text, as a person wrote it; raises NotRemembered."""
        _check_size(scope, document, text)
        await self._put(scope, {document: text}, by=by)
        return await self.load(scope)

    async def roll_back(self, scope: MemoryScope, to_seq: int, *, by: str) -> Memory:
        """Make all documents what they were after this seq, to the byte; raises NotRemembered."""
        if to_seq > await self._store.last_seq(scope.log_id):
            raise NotRemembered(
                f"There is no change {to_seq}. The history lists the changes by their numbers."
            )
        then = (await self.load(scope, upto_seq=max(1, to_seq))).texts if to_seq else {}
        now = (await self.load(scope)).texts
        wanted = {name: then.get(name, "") for name in {**now, **then}}
        await self._put(scope, wanted, by=by, to_seq=to_seq)
        return await self.load(scope)

    async def _put(self, scope: MemoryScope, wanted: Mapping[str, str], *, by: str, to_seq: int = -1) -> None:
        for _ in range(TRIES_MAX):
            now = (await self.load(scope)).texts
            changed = {name: text for name, text in wanted.items() if now.get(name, "") != text}
            if not changed:
                return
            await self._append(
                scope,
                *[
                    e.MemoryWritten(
                        at_ms=self._clock.now_ms(),
                        change_id=f"chg_{token_hex(12)}",
                        document=name,
                        before=now.get(name, ""),
                        after=text,
                        how="edited" if to_seq < 0 else "rolled_back",
                        by=by,
                        to_seq=max(0, to_seq),
                    )
                    for name, text in changed.items()
                ],
            )
        raise NotRemembered("The memory is changed by others all the time. Try again.")

    async def forget(self, scope: MemoryScope, text: str) -> Sequence[str]:
        """Remove the log: all of it, or what has the text. Returns the sessions that it came from.

        What is left is written into a new log, also after a crash in between.
        """
        memory = await self.load(scope)
        kept = {name: _without(words, text) for name, words in memory.texts.items()} if text else {}
        events = [event for _, event in memory.history]
        origins = [one.origin for one in (*events, *memory.proposals.values()) if one.origin is not None]
        left = msgspec.json.encode({name: words for name, words in kept.items() if words})
        await self._store.put_note(NOTE_KEPT + scope.log_id, left)
        await self._store.purge(scope.log_id)
        await self._finish_forgetting(scope)
        return tuple(dict.fromkeys(origin.session_id for origin in origins))

    async def _finish_forgetting(self, scope: MemoryScope) -> None:
        raw = await self._store.note(NOTE_KEPT + scope.log_id)
        if raw is None:
            return
        left = msgspec.json.decode(raw, type=dict[str, str])
        written = [
            e.MemoryWritten(
                at_ms=self._clock.now_ms(),
                change_id=f"chg_{token_hex(12)}",
                document=name,
                before="",
                after=words,
                how="kept",
            )
            for name, words in left.items()
        ]
        if written:
            await self._append(scope, *written)
        await self._store.drop_note(NOTE_KEPT + scope.log_id)

    async def _append(self, scope: MemoryScope, *inputs: e.Input) -> None:
        # Not as the title, by which people's searches would find it.
        about = msgspec.json.encode(scope).decode()
        created = e.SessionCreated(
            at_ms=self._clock.now_ms(), epoch=new_epoch(), source=MEMORY, workspace=about
        )
        if not await self._store.last_seq(scope.log_id):
            # Someone else may create it at the same time: then this has no effect.
            await self._store.append(scope.log_id, [created], when=[IfSessionNew()])
        await self._store.append(scope.log_id, inputs, when=[IfSessionKnown()])


def _change(scope: MemoryScope, memory: Memory, edit: MemoryEdit) -> tuple[str, str]:
    """The text before and after; raises NotRemembered."""
    before = memory.texts.get(edit.document, "")
    after = edited(before, edit.old, edit.new)
    if after is None:
        raise NotRemembered("The text that this replaces isn't in the memory, or more than once.")
    if edit.document not in memory.texts and len(memory.notes) >= NOTES_MAX:
        raise NotRemembered(f"There are {NOTES_MAX} notes already. Replace or remove one.")
    _check_size(scope, edit.document, after)
    return before, after


def _check_size(scope: MemoryScope, document: str, text: str) -> None:
    most = SKILL_CHARS_MAX if scope.kind == "skills" else chars_max(document)
    if len(text) > most:
        what = "skill" if scope.kind == "skills" else "document" if document == DOCUMENT else "note"
        raise NotRemembered(
            f"The {what} would have {len(text):,} characters, and {most:,} fit. Replace or shorten something."
        )


def _without(words: str, text: str) -> str:
    """The lines that don't have the text; one that spans lines is cut out."""
    kept = [line for line in words.replace(text, "").split("\n") if text not in line]
    whole = [line for line in words.split("\n") if text not in line]
    return "\n".join(whole if "\n" not in text else kept).strip()
