"""What happens to a memory: a log of its own, in which each change has the text before and after."""

from typing import Literal

from holdfast.events.bases import Input, RunEvent
from holdfast.values import MemoryOrigin


class MemoryProposed(Input, frozen=True, kw_only=True, tag="memory.proposed"):
    """The agent wants to remember something; it counts only if a person accepts it.

    `because` says what in the run's context wasn't the owner's own words; empty if people are always asked.
    """

    change_id: str
    document: str
    before: str
    after: str
    old: str = ""  # the text that `new` replaces; empty: it is added
    new: str = ""
    reason: str = ""
    because: tuple[str, ...] = ()
    origin: MemoryOrigin | None = None


class MemoryWritten(Input, frozen=True, kw_only=True, tag="memory.written"):
    """A document has another text; nothing changed if it no longer had the text before."""

    change_id: str
    document: str
    before: str
    after: str
    how: Literal["auto", "accepted", "edited", "imported", "rolled_back", "kept"]
    reason: str = ""
    by: str = ""  # the name of the key of the person; empty if it was the agent
    to_seq: int = 0  # of a rollback
    origin: MemoryOrigin | None = None


class MemoryRejected(Input, frozen=True, kw_only=True, tag="memory.rejected"):
    """A person doesn't want this to be remembered."""

    change_id: str
    by: str = ""


class ContextRead(RunEvent, frozen=True, kw_only=True, tag="context.read"):
    """The model is shown something from outside besides the conversation: files, descriptions of tools."""

    sources: tuple[str, ...]
