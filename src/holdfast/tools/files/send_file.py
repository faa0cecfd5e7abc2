"""Hands a file of the workspace to the person in the chat."""

from collections.abc import Mapping
from mimetypes import guess_type
from pathlib import Path
from threading import Event
from typing import Annotated

import msgspec
from msgspec import Meta
from typing_extensions import override

from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.policy.tool_names import SEND_FILE
from holdfast.tools.arguments import arguments_hash, parsed, spec_of
from holdfast.tools.files.contents import WHOLE_BYTES_MAX, byte_count, read_whole
from holdfast.tools.files.read_file import image_type
from holdfast.tools.files.workspace import PathRefused, Workspace, Workspaces
from holdfast.tools.offload import offload
from holdfast.values import Action, SentFile

CAPTION_CHARS_MAX = 900  # platforms take a little more
NAME_CHARS_MAX = 255
UNKNOWN_TYPE = "application/octet-stream"


class SendFileArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file to send."""

    path: Annotated[str, Meta(min_length=1, description="The file, relative to the workspace.")]
    caption: Annotated[
        str, Meta(max_length=CAPTION_CHARS_MAX, description="A short caption for the file.")
    ] = ""


class SendFile(Tool):
    """Sends a file. The chat's owner delivers it from the log, exactly once."""

    args_type = SendFileArgs
    spec = spec_of(
        SEND_FILE,
        "Send a workspace file to the user in the chat, such as an image, a PDF or a log. Up to "
        f"{WHOLE_BYTES_MAX // (1024 * 1024)} MB.",
        args=SendFileArgs,
    )
    traits = ToolTraits(idempotent=True, patience_s=60.0, place="workspace")

    def __init__(self, *, workspaces: Workspaces = Workspace) -> None:
        self._workspaces = workspaces

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        """Resolves links, so it blocks."""
        given = parsed(SendFileArgs, args)
        return Action(
            tool=SEND_FILE,
            summary=f"send {given.path} to the chat",
            paths=(self._workspaces(workspace).resolved(given.path),),
            digest=arguments_hash(SEND_FILE, args),
        )

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(SendFileArgs, args)
        give_up = Event()
        try:
            data, inside = await offload(
                lambda: _read(self._workspaces(call.workspace).bound_to(call.judged_paths), given, give_up),
                give_up=give_up,
            )
        except PathRefused as refused:
            return ToolResult(str(refused), ok=False)
        if not data:
            return ToolResult(f"{inside} is empty, and chats don't accept empty files.", ok=False)
        name = Path(inside).name[-NAME_CHARS_MAX:]
        kind = image_type(data) or guess_type(name)[0] or UNKNOWN_TYPE
        blob = await call.blobs.put_blob(data)
        sent = SentFile(blob=blob, name=name, media_type=kind, caption=given.caption)
        return ToolResult(f"{inside} ({byte_count(len(data))}) is being sent to the chat.", sent=sent)


def _read(workspace: Workspace, given: SendFileArgs, give_up: Event) -> tuple[bytes, str]:
    with workspace.spot(given.path) as spot:
        data, _ = read_whole(spot, give_up=give_up)
        return data, spot.inside
