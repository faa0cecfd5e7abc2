"""Operations on memory and skills."""

from holdfast.api.operation import Operation
from holdfast.api.powers import memory, skills

_PLACE = {"scope": "user, workspace or skills.", "workspace": "The workspace of the memory."}
_REFUSED = {400: "invalid_request, invalid_json", 409: "not_remembered"}

MEMORY_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        "/v1/skills",
        "skills.list",
        tag="Memory",
        summary="List skills, in hermes format. A workspace's skills are active once it's trusted.",
        responses={200: skills.SkillList},
        errors={400: "invalid_request", 403: "workspace_not_allowed"},
        query={"workspace": "Include skills of this folder. Default: the server's workspace."},
    ),
    Operation(
        "GET",
        "/v1/skills/{name}",
        "skills.show",
        tag="Memory",
        summary="Get a skill with its instructions.",
        responses={200: skills.SkillShown},
        errors={400: "invalid_request", 403: "workspace_not_allowed", 404: "skill_not_found"},
        query={"workspace": "Include skills of this folder. Default: the server's workspace."},
    ),
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
