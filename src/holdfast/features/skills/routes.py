"""Skills over HTTP: the list in hermes' shape, and one of them."""

import asyncio
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from holdfast.features.memory.memories import skills_scope
from holdfast.features.skills.bodies import SkillList, SkillListed, SkillShown
from holdfast.features.skills.folders import BadSkill, parse_skill
from holdfast.features.skills.library import FoundSkills, Skill
from holdfast.features.skills.run import library_of, skills_now
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import json_response


class SkillRoutes:
    """The routes under /v1/skills."""

    def __init__(self, parts: RouteParts) -> None:
        self._deps = parts.deps

    async def list(self, request: Request) -> Response:
        """GET /v1/skills."""
        found = await self._found(request)
        data = [SkillListed(**_about(skill)) for _, skill in sorted(found.skills.items())]
        return json_response(SkillList(data=tuple(data), problems=dict(found.problems)))

    async def show(self, request: Request) -> Response:
        """GET /v1/skills/{name}."""
        skill = (await self._found(request)).skills.get(request.path_params["name"])
        if skill is None:
            raise Problem(404, "No skill has this name", code="skill_not_found", param="name")
        library = library_of(self._deps.agent)
        files = await asyncio.to_thread(library.files_of, skill) if library is not None else ()
        text = skill.text
        return json_response(
            SkillShown(
                **_about(skill),
                body=text.body,
                base=skill.base if skill.is_changed else "",
                files=tuple(name for name in files if name != "SKILL.md"),
                licence=text.licence,
                compatibility=text.compatibility,
                allowed_tools=text.allowed_tools,
            )
        )

    async def _found(self, request: Request) -> FoundSkills:
        given = await self._deps.workspaces.allowed(request.query_params.get("workspace", ""))
        workspace = Path(given or self._deps.agent.workspace)
        return await skills_now(self._deps.agent, skills_scope(request.scope[KEY_NAME]), workspace)


def _about(skill: Skill) -> dict[str, Any]:
    return {
        "name": skill.name,
        "description": skill.text.description,
        "category": skill.category or None,
        "origin": skill.origin,
        "trusted": skill.is_trusted,
        "changed": skill.is_changed,
        "folder": str(skill.folder) if skill.folder is not None else "",
    }


def check_skill(name: str, text: str) -> None:
    """Raise a Problem unless this is a skill's text, or empty, and its name."""
    from holdfast.tools.files.yaml_text import is_plain_name  # takes a while, and few change skills

    try:
        if not is_plain_name(name) or (text.strip() and parse_skill(text).name != name):
            raise bad_request("'document' must be the name of the skill in 'text'", param="document")
    except BadSkill as error:
        raise bad_request(f"'text' isn't a valid skill: {error}", param="text") from error
