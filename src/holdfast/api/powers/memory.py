"""The bodies of requests and responses about what agents remember."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from holdfast.api.body import AbsolutePath, ResponseBody
from holdfast.values import MemoryMode, MemoryOrigin

_WORKSPACE = msgspec.Meta(
    max_length=4_096, description="The folder that a workspace's memory is about, as an absolute path."
)
_CHAT = msgspec.Meta(
    max_length=300,
    description="The chat that a memory is about, as the list of memories names it; with the scope skills, "
    "what agents learned there. Needs the scope admin.",
)
_SEEN = msgspec.Meta(ge=0, description="Refuse it if this isn't the last_seq any more; 0: never refuse it.")
_DOCUMENT = msgspec.Meta(
    max_length=80, description="The name of a note; empty means the document that is always shown."
)


MemoryScopeName: TypeAlias = Literal["user", "workspace", "chat", "skills"]


class _MemoryRequest(msgspec.Struct, kw_only=True):
    scope: MemoryScopeName
    workspace: Annotated[AbsolutePath, _WORKSPACE] = ""
    chat: Annotated[str, _CHAT] = ""


class MemoryEditRequest(_MemoryRequest, kw_only=True):
    """The body of PUT /v1/memory: the new text of a document or note; an empty one removes it."""

    text: Annotated[str, msgspec.Meta(max_length=20_000)]
    document: Annotated[str, _DOCUMENT] = ""
    seen_seq: Annotated[int, _SEEN] = 0


class MemoryDecisionRequest(_MemoryRequest, kw_only=True):
    """The body of POST /v1/memory/decide: which proposals to accept and which to reject."""

    accept: Annotated[tuple[str, ...], msgspec.Meta(max_length=100)] = ()
    reject: Annotated[tuple[str, ...], msgspec.Meta(max_length=100)] = ()


class MemoryRollbackRequest(_MemoryRequest, kw_only=True):
    """The body of POST /v1/memory/rollback: the seq of the last change that is to count; 0 means none.

    With `change_id`, that one change is taken back instead, and all others stay.
    """

    to_seq: Annotated[int, msgspec.Meta(ge=0)] = 0
    change_id: Annotated[str, msgspec.Meta(max_length=300)] = ""
    seen_seq: Annotated[int, _SEEN] = 0


class MemoryForgetRequest(_MemoryRequest, kw_only=True):
    """The body of POST /v1/memory/forget: without a text, everything is forgotten."""

    text: Annotated[str, msgspec.Meta(max_length=4_000)] = ""


class MemoryProposalShown(ResponseBody, frozen=True, kw_only=True):
    """Something that the agent wants to remember; `because` says what else the model had seen."""

    change_id: str
    document: str
    before: str
    after: str
    reason: str
    proposed_at: float
    because: tuple[str, ...] = ()
    origin: MemoryOrigin | None = None


class MemoryChangeShown(ResponseBody, frozen=True, kw_only=True):
    """A change of a memory."""

    seq: int
    change_id: str
    document: str
    before: str
    after: str
    how: Literal["auto", "accepted", "edited", "imported", "rolled_back", "kept"]
    changed_at: float
    reason: str = ""
    by: str = ""
    to_seq: int = 0
    origin: MemoryOrigin | None = None


class MemoryShown(ResponseBody, frozen=True, kw_only=True):
    """One memory: the document that is always shown, the notes by name, and what waits for you.

    The one with the scope `skills` has changes of skills, and skills that agents added, as notes.
    """

    scope: MemoryScopeName
    workspace: str = ""
    chat: str = ""
    document: str = ""
    notes: dict[str, str] = {}  # noqa: RUF012  # each struct gets its own
    proposals: tuple[MemoryProposalShown, ...] = ()
    last_seq: int = 0


class MemoryList(ResponseBody, frozen=True, kw_only=True, tag_field="object", tag="list"):
    """The memories of the caller."""

    mode: MemoryMode
    data: tuple[MemoryShown, ...]


class MemoryHistory(ResponseBody, frozen=True, kw_only=True, tag_field="object", tag="list"):
    """The changes of a memory, newest first."""

    data: tuple[MemoryChangeShown, ...]


class RememberedIn(ResponseBody, frozen=True, kw_only=True):
    """A session that still contains what was forgotten."""

    session_id: str
    title: str = ""


class MemoryForgotten(ResponseBody, frozen=True, kw_only=True):
    """The memory is gone; these sessions still contain the text, or it came from them."""

    forgotten: bool  # false if the memory doesn't have the text: then nothing was changed
    sessions: tuple[RememberedIn, ...] = ()
