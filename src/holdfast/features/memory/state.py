"""A memory as a fold of its log: the documents that count now, what is proposed, and the history."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from holdfast import events as e
from holdfast.features.memory.events import MemoryProposed, MemoryRejected, MemoryWritten
from holdfast.values import LogEnd

DOCUMENT = "document"  # the text that is always shown; every other document is a note
DOCUMENT_CHARS_MAX = 2_000
NOTE_CHARS_MAX = 4_000
NOTES_MAX = 500


class Memory(Struct):
    """One memory at `last_seq` of a log."""

    epoch: str = ""
    last_seq: int = 0
    texts: dict[str, str] = field(default_factory=dict[str, str])
    proposals: dict[str, MemoryProposed] = field(default_factory=dict[str, MemoryProposed])
    history: list[tuple[int, MemoryWritten]] = field(default_factory=list[tuple[int, MemoryWritten]])
    settled: set[str] = field(default_factory=set[str])  # changes that were made or rejected

    @property
    def end(self) -> LogEnd:
        """Where its log ends."""
        return LogEnd(self.epoch, self.last_seq)

    @property
    def document(self) -> str:
        """Return the main document, which the model always sees."""
        return self.texts.get(DOCUMENT, "")

    @property
    def notes(self) -> dict[str, str]:
        """The notes by name."""
        return {name: text for name, text in self.texts.items() if name != DOCUMENT}

    def knows(self, change_id: str) -> bool:
        """Whether the change was proposed, made or rejected already."""
        return change_id in self.settled or change_id in self.proposals

    def has_made(self, change_id: str) -> bool:
        """Return whether the change was made, even if it was undone since."""
        return any(event.change_id == change_id for _, event in self.history)


def fold(pairs: Iterable[tuple[int, e.Event]]) -> Memory:
    """The memory after a whole log, or after the first part of one."""
    memory = Memory()
    for seq, event in pairs:
        apply(memory, seq, event)
    return memory


def apply(memory: Memory, seq: int, event: Any) -> None:
    """Change the memory by one event."""
    match event:
        case MemoryProposed() if not memory.knows(event.change_id):
            memory.proposals[event.change_id] = event
        case MemoryWritten() if _can_follow(memory, event):
            memory.proposals.pop(event.change_id, None)
            memory.settled.add(event.change_id)
            memory.history.append((seq, event))
            memory.texts[event.document] = event.after
            if not event.after:
                del memory.texts[event.document]
        case e.SessionCreated():
            memory.epoch = event.epoch
        case MemoryRejected():
            memory.proposals.pop(event.change_id, None)
            memory.settled.add(event.change_id)
        case _:
            pass  # a change that lost a race
    memory.last_seq = seq


def _can_follow(memory: Memory, event: MemoryWritten) -> bool:
    """Whether the change counts: made of the text that there is, and neither made nor rejected before."""
    return memory.texts.get(event.document, "") == event.before and event.change_id not in memory.settled


def edited(text: str, old: str, new: str) -> str | None:
    """The text with `new` for `old`, or with `new` added; None if `old` isn't there exactly once."""
    if old:
        return text.replace(old, new).strip() if text.count(old) == 1 else None
    return f"{text}\n{new.strip()}".strip()


def undone(text: str, before: str, after: str) -> str | None:
    """The text without one change; None if later changes are made of it."""
    if text == after:
        return before
    added = after.removeprefix(before).strip() if after.startswith(before) else ""
    lines, gone = text.split("\n"), added.split("\n")
    places = [at for at in range(len(lines)) if lines[at : at + len(gone)] == gone] if added else []
    if len(places) != 1:
        return None
    return "\n".join(lines[: places[0]] + lines[places[0] + len(gone) :]).strip()


def chars_max(document: str) -> int:
    """How long the document may be."""
    return DOCUMENT_CHARS_MAX if document == DOCUMENT else NOTE_CHARS_MAX
