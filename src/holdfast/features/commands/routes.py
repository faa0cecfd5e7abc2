"""The routes of commands."""

import asyncio
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from holdfast.features.commands.bodies import CommandExpanded, CommandList, CommandListed, ExpandCommand
from holdfast.features.commands.library import BadCommand, FoundCommands, find_commands
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import decoded, json_response


class CommandRoutes:
    """The routes under /v1/commands."""

    def __init__(self, parts: RouteParts) -> None:
        self._deps = parts.deps

    async def list(self, request: Request) -> Response:
        """GET /v1/commands."""
        found = await self._found(request.query_params.get("workspace", ""))
        data = [
            CommandListed(
                name=one.name,
                description=one.description,
                argument_hint=one.argument_hint,
                origin=one.origin,
            )
            for _, one in sorted(found.commands.items())
        ]
        return json_response(CommandList(data=tuple(data), problems=found.problems))

    async def expand(self, request: Request) -> Response:
        """POST /v1/commands/{name}/expand."""
        body = await decoded(request, self._deps.limits, ExpandCommand)
        command = (await self._found(body.workspace)).commands.get(request.path_params["name"])
        if command is None:
            raise Problem(404, "No command has this name", code="command_not_found", param="name")
        try:
            made = command.expanded(body.arguments)
        except BadCommand as error:
            raise bad_request(f"This command can't be used: {error}", param="arguments") from None
        return json_response(CommandExpanded(text=made.text, model=made.model, plan_first=made.plan_first))

    async def _found(self, workspace: str) -> FoundCommands:
        given = await self._deps.workspaces.allowed(workspace)
        return await asyncio.to_thread(find_commands, Path(given or self._deps.agent.workspace))
