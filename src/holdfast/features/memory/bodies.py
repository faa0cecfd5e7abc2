"""The HTTP surface of memory."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from holdfast.api.body import AbsolutePath, ResponseBody
from holdfast.api.operation import ONCE, Operation
from holdfast.features.memory.events import MemoryOrigin
from holdfast.values import MemoryMode

_WORKSPACE = msgspec.Meta(max_length=4_096, description="The workspace of the memory, as an absolute path.")
_CHAT = msgspec.Meta(
    max_length=300,
    description="The chat of the memory, named as in the list of memories. With `scope` skills, selects "
    "skills learned there. Needs the scope admin.",
)
_SEEN = msgspec.Meta(
    ge=0, description="Reject the request unless this is still the last_seq. 0 skips the check."
)
_DOCUMENT = msgspec.Meta(max_length=80, description="The name of a note. Empty means the main document.")


MemoryScopeName: TypeAlias = Literal["user", "workspace", "chat", "skills"]


class _MemoryRequest(msgspec.Struct, kw_only=True):
    scope: MemoryScopeName
    workspace: Annotated[AbsolutePath, _WORKSPACE] = ""
    chat: Annotated[str, _CHAT] = ""


class MemoryEditRequest(_MemoryRequest, kw_only=True):
    """The body of PUT /v1/memory: the new text of the document or a note. Empty text removes it."""

    text: Annotated[str, msgspec.Meta(max_length=20_000)]
    document: Annotated[str, _DOCUMENT] = ""
    seen_seq: Annotated[int, _SEEN] = 0


class MemoryProposalRequest(_MemoryRequest, kw_only=True):
    """The body of POST /v1/memory/propose: a line to add to the document, once someone accepts it."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=4_000)]
    session_id: Annotated[
        str, msgspec.Meta(max_length=256, description="The chat that shows the proposal.")
    ] = ""


class MemoryDecisionRequest(_MemoryRequest, kw_only=True):
    """The body of POST /v1/memory/decide: the proposals to accept and to reject."""

    accept: Annotated[tuple[str, ...], msgspec.Meta(max_length=100)] = ()
    reject: Annotated[tuple[str, ...], msgspec.Meta(max_length=100)] = ()


class MemoryRollbackRequest(_MemoryRequest, kw_only=True):
    """The body of POST /v1/memory/rollback: the seq of the last change to keep; 0 discards all.

    With `change_id`, only that change is undone.
    """

    to_seq: Annotated[int, msgspec.Meta(ge=0)] = 0
    change_id: Annotated[str, msgspec.Meta(max_length=300)] = ""
    seen_seq: Annotated[int, _SEEN] = 0


class MemoryForgetRequest(_MemoryRequest, kw_only=True):
    """The body of POST /v1/memory/forget. Without a text, everything is forgotten."""

    text: Annotated[str, msgspec.Meta(max_length=4_000)] = ""


class MemoryProposalShown(ResponseBody, frozen=True, kw_only=True):
    """A proposed memory. `because` lists the other sources that the model had seen."""

    change_id: str
    document: str
    before: str
    after: str
    reason: str
    proposed_at: float
    because: tuple[str, ...] = ()
    origin: MemoryOrigin | None = None


class MemoryChangeShown(ResponseBody, frozen=True, kw_only=True):
    """A change to a memory."""

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
    """A memory: its main document, its notes by name, and pending proposals.

    With the scope `skills`, notes are skills that agents changed or added.
    """

    scope: MemoryScopeName
    workspace: str = ""
    chat: str = ""
    document: str = ""
    notes: dict[str, str] = {}  # noqa: RUF012  # each struct gets its own
    proposals: tuple[MemoryProposalShown, ...] = ()
    last_seq: int = 0


class MemoryList(ResponseBody, frozen=True, kw_only=True, tag_field="object", tag="list"):
    """The caller's memories."""

    mode: MemoryMode
    data: tuple[MemoryShown, ...]


class MemoryHistory(ResponseBody, frozen=True, kw_only=True, tag_field="object", tag="list"):
    """The changes of a memory, newest first."""

    data: tuple[MemoryChangeShown, ...]


class RememberedIn(ResponseBody, frozen=True, kw_only=True):
    """A session that still contains the forgotten text."""

    session_id: str
    title: str = ""


class MemoryForgotten(ResponseBody, frozen=True, kw_only=True):
    """The memory is forgotten. These sessions are its source or still contain the text."""

    forgotten: bool  # false if the memory doesn't contain the text, so nothing changed
    sessions: tuple[RememberedIn, ...] = ()


_PLACE = {"scope": "user, workspace or skills.", "workspace": "The workspace of the memory."}
_REFUSED = {400: "invalid_request, invalid_json", 409: "not_remembered"}

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        "/v1/memory",
        "memory.list",
        tag="Memory",
        summary="List memories of this key: about the user and about each workspace.",
        responses={200: MemoryList},
    ),
    Operation(
        "PUT",
        "/v1/memory",
        "memory.edit",
        tag="Memory",
        summary="Replace the text of the document or a note.",
        scopes=("approve",),
        request=MemoryEditRequest,
        responses={200: MemoryShown},
        errors=_REFUSED,
        needs_request=True,
    ),
    Operation(
        "GET",
        "/v1/memory/history",
        "memory.history",
        tag="Memory",
        summary="List changes to a memory, newest first, with before, after, reason and source message.",
        responses={200: MemoryHistory},
        errors={400: "invalid_request"},
        query=_PLACE,
    ),
    Operation(
        "POST",
        "/v1/memory/propose",
        "memory.propose",
        tag="Memory",
        summary="Propose a memory. With a repeated Idempotency-Key, there's one proposal.",
        request=MemoryProposalRequest,
        responses={200: MemoryShown},
        errors=_REFUSED,
        headers=ONCE,
        needs_request=True,
    ),
    Operation(
        "POST",
        "/v1/memory/decide",
        "memory.decide",
        tag="Memory",
        summary="Accept or reject proposed memories, several at once.",
        scopes=("approve",),
        request=MemoryDecisionRequest,
        responses={200: MemoryShown},
        errors=_REFUSED,
        needs_request=True,
    ),
    Operation(
        "POST",
        "/v1/memory/rollback",
        "memory.roll_back",
        tag="Memory",
        summary="Roll a memory back to an earlier change.",
        scopes=("approve",),
        request=MemoryRollbackRequest,
        responses={200: MemoryShown},
        errors=_REFUSED,
        needs_request=True,
    ),
    Operation(
        "POST",
        "/v1/memory/forget",
        "memory.forget",
        tag="Memory",
        summary=(
            "Permanently remove a memory and its history, or only the lines that contain a text. The "
            "response lists sessions that still contain it; delete them with DELETE "
            "/api/sessions/{session_id}."
        ),
        scopes=("approve",),
        request=MemoryForgetRequest,
        responses={200: MemoryForgotten},
        errors={400: "invalid_request, invalid_json"},
        needs_request=True,
    ),
)
