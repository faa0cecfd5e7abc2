"""Commands in the terminal chat and in messengers."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.client.client import in_path
from holdfast.client.errors import Refused
from holdfast.features.commands.bodies import CommandExpanded, CommandList
from holdfast.features.commands.library import BadCommand, find_commands
from holdfast.interfaces.feature import Expansion, UserCommands
from holdfast.safe_text import safe_line

if TYPE_CHECKING:
    from holdfast.cli.chat.conversation import ChatScreen


async def _listed(chat: "ChatScreen") -> Sequence[tuple[str, str]]:
    query = {"workspace": str(chat.workspace)}
    found = await chat.client.get("/v1/commands", CommandList, query=query)
    about = [": ".join(filter(None, (one.argument_hint, one.description))) for one in found.data]
    return [(f"/{one.name}", safe_line(what, 80)) for one, what in zip(found.data, about, strict=True)]


async def _in_terminal(chat: "ChatScreen", name: str, arguments: str) -> Expansion | None:
    body = {"arguments": arguments, "workspace": str(chat.workspace)}
    try:
        found = await chat.client.post(f"/v1/commands/{in_path(name)}/expand", body, CommandExpanded)
    except Refused as error:
        if error.status != 404:  # noqa: PLR2004
            raise
        return None
    return Expansion(found.text, found.model, plan_first=found.plan_first)


async def _in_messenger(workspace: Path, name: str, arguments: str) -> Expansion | None:
    command = (await asyncio.to_thread(find_commands, workspace)).commands.get(name)
    try:
        return None if command is None else command.expanded(arguments)
    except BadCommand:
        return None


USER_COMMANDS = UserCommands(_listed, _in_terminal, _in_messenger)
