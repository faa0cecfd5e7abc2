"""The HTTP surface of skills."""

from typing import Literal

from holdfast.api.body import ResponseBody
from holdfast.api.operation import Operation


class SkillListed(ResponseBody, frozen=True, kw_only=True):
    """A skill in a list. `category` is its subject folder, as in hermes."""

    name: str
    description: str
    category: str | None
    origin: Literal["own", "configured", "workspace", "learned"]
    trusted: bool
    changed: bool = False  # by an accepted proposal
    folder: str = ""


class SkillShown(SkillListed, frozen=True, kw_only=True):
    """A skill with its instructions and the names of its other files."""

    body: str
    base: str = ""  # the original SKILL.md, if an accepted change overlays it
    files: tuple[str, ...] = ()
    licence: str = ""
    compatibility: str = ""
    allowed_tools: str = ""


class SkillList(ResponseBody, frozen=True, kw_only=True, tag_field="object", tag="list"):
    """The caller's skills in a workspace, and problems by folder."""

    data: tuple[SkillListed, ...]
    problems: dict[str, str] = {}  # noqa: RUF012  # each struct gets its own


_WORKSPACE = {"workspace": "Include skills of this folder. Default: the server's workspace."}

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        "/v1/skills",
        "skills.list",
        tag="Memory",
        summary="List skills, in hermes format. A workspace's skills are active once it's trusted.",
        responses={200: SkillList},
        errors={400: "invalid_request", 403: "workspace_not_allowed"},
        query=_WORKSPACE,
    ),
    Operation(
        "GET",
        "/v1/skills/{name}",
        "skills.show",
        tag="Memory",
        summary="Get a skill with its instructions.",
        responses={200: SkillShown},
        errors={400: "invalid_request", 403: "workspace_not_allowed", 404: "skill_not_found"},
        query=_WORKSPACE,
    ),
)
