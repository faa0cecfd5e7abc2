"""Skills over HTTP: the list in hermes' shape, and one of them."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from holdfast.agent.skills import skills_now
from holdfast.api.powers.skills import SkillList, SkillListed, SkillShown
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem
from holdfast.server.routing import Endpoint
from holdfast.server.transport.bodies import json_response
from holdfast.tools.memory.memories import skills_scope
from holdfast.tools.skills.library import FoundSkills, Skill


class SkillRoutes:
    """The routes under /v1/skills."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

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
        library = self._deps.agent.skills
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


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    skills = SkillRoutes(parts.deps)
    return {
        "skills.list": skills.list,
        "skills.show": skills.show,
    }
