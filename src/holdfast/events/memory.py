"""Events in a memory's log. Each change has the text before and after."""

from typing import Literal

from holdfast.events.bases import Input, RunEvent
from holdfast.values import MemoryOrigin


class MemoryProposed(Input, frozen=True, kw_only=True, tag="memory.proposed"):
    """An agent proposed a memory, which needs a person's approval.

    `because` lists the parts of the run's context that aren't from the owner; empty if approval is always
    needed.
    """

    change_id: str
    document: str
    before: str
    after: str
    old: str = ""  # the text to replace with `new`; empty: append
    new: str = ""
    reason: str = ""
    because: tuple[str, ...] = ()
    origin: MemoryOrigin | None = None


class MemoryWritten(Input, frozen=True, kw_only=True, tag="memory.written"):
    """A document changed. Without effect if it no longer has the text `before`."""

    change_id: str
    document: str
    before: str
    after: str
    how: Literal["auto", "accepted", "edited", "imported", "rolled_back", "kept"]
    reason: str = ""
    by: str = ""  # the person's API key; empty for the agent
    to_seq: int = 0  # of a rollback
    origin: MemoryOrigin | None = None


class MemoryRejected(Input, frozen=True, kw_only=True, tag="memory.rejected"):
    """A person rejected a proposal."""

    change_id: str
    by: str = ""


class ContextRead(RunEvent, frozen=True, kw_only=True, tag="context.read"):
    """The model saw outside content besides the conversation: files or tool descriptions."""

    sources: tuple[str, ...]
