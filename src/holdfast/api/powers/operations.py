"""Operations on memory."""

from holdfast.api.operation import Operation
from holdfast.api.powers import memory

_PLACE = {"scope": "user, workspace or skills.", "workspace": "The workspace of the memory."}
_REFUSED = {400: "invalid_request, invalid_json", 409: "not_remembered"}

MEMORY_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        "/v1/memory",
        "memory.list",
        tag="Memory",
        summary="List memories of this key: about the user and about each workspace.",
        responses={200: memory.MemoryList},
    ),
    Operation(
        "PUT",
        "/v1/memory",
        "memory.edit",
        tag="Memory",
        summary="Replace the text of the document or a note.",
        scopes=("approve",),
        request=memory.MemoryEditRequest,
        responses={200: memory.MemoryShown},
        errors=_REFUSED,
        needs_request=True,
    ),
    Operation(
        "GET",
        "/v1/memory/history",
        "memory.history",
        tag="Memory",
        summary="List changes to a memory, newest first, with before, after, reason and source message.",
        responses={200: memory.MemoryHistory},
        errors={400: "invalid_request"},
        query=_PLACE,
    ),
    Operation(
        "POST",
        "/v1/memory/decide",
        "memory.decide",
        tag="Memory",
        summary="Accept or reject proposed memories, several at once.",
        scopes=("approve",),
        request=memory.MemoryDecisionRequest,
        responses={200: memory.MemoryShown},
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
        request=memory.MemoryRollbackRequest,
        responses={200: memory.MemoryShown},
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
        request=memory.MemoryForgetRequest,
        responses={200: memory.MemoryForgotten},
        errors={400: "invalid_request, invalid_json"},
        needs_request=True,
    ),
)
