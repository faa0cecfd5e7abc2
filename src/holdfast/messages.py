"""The messages and tools of one model request, the same for every wire."""

from functools import cached_property
from hashlib import blake2b
from operator import attrgetter
from typing import ClassVar, TypeAlias

import msgspec

from holdfast.values import ImagePart, OutputFormat, Part, TextPart, ToolOwner

ANSWER_BYTES_MAX = 32_000_000
CHARS_PER_TOKEN = 4
IMAGE_TOKENS = 1_500
FILE_TOKENS = 2_000
MESSAGE_TOKENS = 4


class _KeptMessage(msgspec.Struct, frozen=True, dict=True):
    """A message that is sent again with each call of its session, and keeps what it was turned into."""

    @cached_property
    def encoded(self) -> dict[str, bytes]:
        """Its JSON on a wire, by the target and its dialect; only if no attachment is part of it."""
        return {}


class UserMessage(_KeptMessage, frozen=True, omit_defaults=True, tag="user", tag_field="role"):
    """A person's message."""

    text: str
    parts: tuple[Part, ...] = ()

    @cached_property
    def tokens(self) -> int:
        """Estimated, as for every message: it's shown again in each call of its session."""
        return MESSAGE_TOKENS + _tokens_of(self.text, self.parts)


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
    via: str = ""  # the tool that the model called to call this one


Said: TypeAlias = SaidText | Thought | AskedTool


class AssistantMessage(_KeptMessage, frozen=True, tag="assistant", tag_field="role"):
    """One answer of the model, in the order in which it came."""

    items: tuple[Said, ...]
    parts: ClassVar[tuple[Part, ...]] = ()  # only other messages have attachments

    @cached_property
    def tool_ids(self) -> tuple[str, ...]:
        """The ids of the tool calls."""
        return tuple([item.tool_call_id for item in self.items if isinstance(item, AskedTool)])

    @cached_property
    def tokens(self) -> int:
        """Estimated."""
        return MESSAGE_TOKENS + sum(map(_said_chars, self.items)) // CHARS_PER_TOKEN


class ToolMessage(_KeptMessage, frozen=True, omit_defaults=True, tag="tool", tag_field="role"):
    """A tool call's result."""

    tool_call_id: str
    name: str
    text: str
    ok: bool = True
    parts: tuple[Part, ...] = ()

    @cached_property
    def tokens(self) -> int:
        """Estimated."""
        return MESSAGE_TOKENS + _tokens_of(self.text, self.parts)


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage
PARTS = attrgetter("parts")  # of a message, for `filter`: there can be thousands of messages
_TOKENS = attrgetter("tokens")


class ToolSpec(msgspec.Struct, frozen=True, dict=True):
    """A tool as the model is told of it; `schema` is JSON Schema of an object."""

    name: str
    description: str
    schema: dict[str, object]
    on_demand: bool = False  # rarely used: declared only in runs that name it, and found with find_tools

    @cached_property
    def schema_json(self) -> bytes:
        """The schema as it is sent, encoded once for all requests."""
        return msgspec.json.encode(self.schema)

    @cached_property
    def encoded(self) -> dict[str, bytes]:
        """Its declaration on each wire, encoded once for all requests."""
        return {}

    @cached_property
    def declared_bytes(self) -> int:
        """The size of the declaration, without what a wire puts around it."""
        return len(self.name) + len(self.description) + len(self.schema_json)

    @cached_property
    def digest(self) -> str:
        """Identifies the declaration."""
        declared = b"\0".join((self.name.encode(), self.description.encode(), self.schema_json))
        return blake2b(declared, digest_size=8).hexdigest()


class ModelRequest(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """One logical request; it never ends with an assistant message."""

    messages: tuple[Message, ...]
    model: str = ""  # whom the caller would rather hear: a target's name or model; others take its place
    instructions: str = ""
    tools: tuple[ToolSpec, ...] = ()
    client_tools: frozenset[str] = (
        frozenset()
    )  # names of tools that the client runs, also those not offered now
    max_output_tokens: int | None = None
    options_are_ours: bool = False  # a target that refuses one goes without it; a caller's are an error there
    answer_bytes_max: int = ANSWER_BYTES_MAX  # of text, reasoning and tool arguments; nobody is sent this
    temperature: float | None = None
    reasoning_effort: str = ""
    output: OutputFormat | None = None
    sampling: dict[str, object] = {}  # as OpenAI names them; each wire sends those that it knows
    tool_choice: str = ""  # "required", the name of a tool, or empty: the model chooses
    call_tool: str = ""  # the declared tool that calls other tools: its calls are recorded as theirs
    cache_key: str = ""
    spent_tool_ids: frozenset[str] = frozenset()  # of calls that the run made, also if no message shows them

    @cached_property
    def input_tokens(self) -> int:
        """Estimated, within a factor of about one and a half."""
        chars = len(self.instructions)
        for tool in self.tools:
            chars += tool.declared_bytes
        if self.output is not None:
            chars += len(msgspec.json.encode(self.output.schema))
        return chars // CHARS_PER_TOKEN + sum(map(_TOKENS, self.messages))

    def owner_of(self, tool: str) -> ToolOwner:
        """Who runs a call of the tool."""
        return "client" if tool in self.client_tools else "holdfast"


def _tokens_of(text: str, parts: tuple[Part, ...]) -> int:
    return len(text) // CHARS_PER_TOKEN + sum(map(_part_tokens, parts))


def _part_tokens(part: Part) -> int:
    if isinstance(part, TextPart):
        return len(part.text) // CHARS_PER_TOKEN
    return IMAGE_TOKENS if isinstance(part, ImagePart) else FILE_TOKENS


def _said_chars(item: Said) -> int:
    if isinstance(item, AskedTool):
        return len(item.name) + len(item.bad_args) + len(msgspec.json.encode(item.args))
    return len(item.text)
