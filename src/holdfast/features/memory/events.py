"""Events in a memory's log. Each change has the text before and after."""

from typing import Literal

import msgspec

from holdfast.events.bases import Event, Input


class MemoryOrigin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tool call and the message that a memory or a skill comes from."""

    session_id: str
    run_id: str
    message_id: str
    tool_call_id: str
    seq: int = 0  # of the message in its session


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


EVENTS: tuple[type[Event], ...] = (MemoryProposed, MemoryWritten, MemoryRejected)
