"""What a model is shown: the messages and tools of one request, the same for every wire."""

from typing import TypeAlias

import msgspec

from holdfast.values import ImagePart, OutputFormat, Part, TextPart, ToolOwner

ANSWER_BYTES_MAX = 32_000_000


class UserMessage(msgspec.Struct, frozen=True, omit_defaults=True, tag="user", tag_field="role"):
    """What a person said."""

    text: str
    parts: tuple[Part, ...] = ()


class SaidText(msgspec.Struct, frozen=True, omit_defaults=True, tag="text", tag_field="kind"):
    """Text that the model said; `phase` is what `target` called it, and wants to have back with it."""

    text: str
    phase: str = ""
    target: str = ""


class Thought(msgspec.Struct, frozen=True, omit_defaults=True, tag="reasoning", tag_field="kind"):
    """Thinking, with what its provider wants back (a signature, say), valid for `target` only."""

    text: str
    opaque: dict[str, str] = {}
    target: str = ""


class AskedTool(msgspec.Struct, frozen=True, omit_defaults=True, tag="tool", tag_field="kind"):
    """A tool call that the model made; `bad_args` holds arguments that are no JSON object, as they came.

    `opaque` is what its provider wants back with it (Gemini's thought signature), valid for `target` only.
    """

    tool_call_id: str
    name: str
    args: dict[str, object] = {}
    bad_args: str = ""
    opaque: dict[str, str] = {}
    target: str = ""


Said: TypeAlias = SaidText | Thought | AskedTool


class AssistantMessage(msgspec.Struct, frozen=True, tag="assistant", tag_field="role"):
    """One answer of the model, in the order in which it came."""

    items: tuple[Said, ...]


class ToolMessage(msgspec.Struct, frozen=True, omit_defaults=True, tag="tool", tag_field="role"):
    """What a tool call brought."""

    tool_call_id: str
    name: str
    text: str
    ok: bool = True
    parts: tuple[Part, ...] = ()


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as the model is told of it; `schema` is JSON Schema of an object."""

    name: str
    description: str
    schema: dict[str, object]


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One logical request; it never ends with an assistant message."""

    messages: tuple[Message, ...]
    model: str = ""  # whom the caller would rather hear: a target's name or model; others take its place
    instructions: str = ""
    tools: tuple[ToolSpec, ...] = ()
    client_tools: frozenset[str] = (
        frozenset()
    )  # names of tools that the client runs, also those not offered now
    max_output_tokens: int | None = None
    answer_bytes_max: int = ANSWER_BYTES_MAX  # of text, reasoning and tool arguments; nobody is sent this
    temperature: float | None = None
    reasoning_effort: str = ""
    output: OutputFormat | None = None
    sampling: dict[str, object] = {}  # as OpenAI names them; each wire sends those that it knows
    tool_choice: str = ""  # "required", the name of a tool, or empty: the model chooses
    cache_key: str = ""
    spent_tool_ids: frozenset[str] = frozenset()  # of calls that the run made, also if no message shows them

    def owner_of(self, tool: str) -> ToolOwner:
        """Who runs a call of the tool."""
        return "client" if tool in self.client_tools else "holdfast"


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
    if request.output is not None:
        chars += len(msgspec.json.encode(request.output.schema))
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
