"""The operations on what agents remember, and on skills."""

from holdfast.api.operation import Operation
from holdfast.api.powers import memory, skills

_PLACE = {"scope": "user, workspace or skills.", "workspace": "The folder that the memory is about."}
_REFUSED = {400: "invalid_request, invalid_json", 409: "not_remembered"}

MEMORY_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        "/v1/skills",
        "skills.list",
        tag="Memory",
        summary="The skills, in the shape that hermes has; those of a workspace count once they are trusted.",
        responses={200: skills.SkillList},
        errors={400: "invalid_request", 403: "workspace_not_allowed"},
        query={"workspace": "With the skills of this folder; by default the server's workspace."},
    ),
    Operation(
        "GET",
        "/v1/skills/{name}",
        "skills.show",
        tag="Memory",
        summary="One skill with its instructions.",
        responses={200: skills.SkillShown},
        errors={400: "invalid_request", 403: "workspace_not_allowed", 404: "skill_not_found"},
        query={"workspace": "With the skills of this folder; by default the server's workspace."},
    ),
    Operation(
        "GET",
        "/v1/memory",
        "memory.list",
        tag="Memory",
        summary="What agents remember for this key: about the user, and about each workspace.",
        responses={200: memory.MemoryList},
    ),
    Operation(
        "PUT",
        "/v1/memory",
        "memory.edit",
        tag="Memory",
        summary="Give a document or a note another text.",
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
        summary="The changes of a memory, newest first: before, after, why, and the message they came from.",
        responses={200: memory.MemoryHistory},
        errors={400: "invalid_request"},
        query=_PLACE,
    ),
    Operation(
        "POST",
        "/v1/memory/decide",
        "memory.decide",
        tag="Memory",
        summary="Accept and reject what agents propose to remember, several at once.",
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
        summary="Make a memory exactly what it was after an earlier change.",
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
            "Remove a memory with its whole history, or only what has a text. The response names the "
            "sessions that still contain it; delete them with DELETE /api/sessions/{session_id}."
        ),
        scopes=("approve",),
        request=memory.MemoryForgetRequest,
        responses={200: memory.MemoryForgotten},
        errors={400: "invalid_request, invalid_json"},
        needs_request=True,
    ),
)
