"""The HTTP surface of commands."""

from typing import Literal

import msgspec

from holdfast.api.body import ResponseBody
from holdfast.api.operation import Operation


class CommandListed(ResponseBody, frozen=True, kw_only=True):
    """A command. Its name has no slash."""

    name: str
    description: str
    argument_hint: str
    origin: Literal["own", "workspace"]


class CommandList(ResponseBody, frozen=True, kw_only=True, tag_field="object", tag="list"):
    """The commands that users wrote, and why other files aren't used, by path."""

    data: tuple[CommandListed, ...]
    problems: dict[str, str] = {}  # noqa: RUF012  # each struct gets its own


class ExpandCommand(msgspec.Struct):
    """The text after the command's name, and the folder whose commands count."""

    arguments: str = ""
    workspace: str = ""


class CommandExpanded(ResponseBody, frozen=True, kw_only=True):
    """The message to send, and the settings of its run. Nothing was run or sent."""

    text: str
    model: str = ""
    plan_first: bool = False


_WORKSPACE = {"workspace": "Include trusted commands of this folder. Default: the server's workspace."}
OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        "/v1/commands",
        "commands.list",
        tag="Server",
        summary="List the slash commands that the user wrote as files.",
        responses={200: CommandList},
        errors={400: "invalid_request", 403: "workspace_not_allowed"},
        query=_WORKSPACE,
    ),
    Operation(
        "POST",
        "/v1/commands/{name}/expand",
        "commands.expand",
        tag="Server",
        summary="Get the message that a command stands for. Sends and runs nothing.",
        request=ExpandCommand,
        responses={200: CommandExpanded},
        errors={
            400: "invalid_request, invalid_json",
            403: "workspace_not_allowed",
            404: "command_not_found",
        },
    ),
)
