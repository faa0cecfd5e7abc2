"""How large a request is, roughly: enough to choose patience by, never enough to cut anything."""

import msgspec

from holdfast.messages import AskedTool, AssistantMessage, Message, ModelRequest
from holdfast.values import ImagePart, Part, TextPart

CHARS_PER_TOKEN = 4
IMAGE_TOKENS = 1_500
FILE_TOKENS = 2_000
MESSAGE_TOKENS = 4


def estimated_tokens(request: ModelRequest) -> int:
    """The input tokens of the request, within a factor of about one and a half."""
    chars = len(request.instructions) + sum(
        len(tool.name) + len(tool.description) + len(msgspec.json.encode(tool.schema))
        for tool in request.tools
    )
    return chars // CHARS_PER_TOKEN + sum(map(_message_tokens, request.messages))


def _message_tokens(message: Message) -> int:
    if isinstance(message, AssistantMessage):
        chars = sum(
            len(item.name) + len(item.bad_args) + len(msgspec.json.encode(item.args))
            if isinstance(item, AskedTool)
            else len(item.text)
            for item in message.items
        )
        return MESSAGE_TOKENS + chars // CHARS_PER_TOKEN
    return MESSAGE_TOKENS + len(message.text) // CHARS_PER_TOKEN + sum(map(_part_tokens, message.parts))


def _part_tokens(part: Part) -> int:
    if isinstance(part, TextPart):
        return len(part.text) // CHARS_PER_TOKEN
    return IMAGE_TOKENS if isinstance(part, ImagePart) else FILE_TOKENS
