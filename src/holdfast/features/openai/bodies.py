"""OpenAI-compatible request and response bodies."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.api.body import ALWAYS_TRUE, ResponseBody, one_of
from holdfast.api.runs import (
    HistoryItem,
    ModelOptions,
    OnDisconnect,
    RawInput,
    RawMessage,
    SessionId,
    ShortText,
)
from holdfast.targets import STOPS_MAX

FormatType: TypeAlias = Literal["text", "json_object", "json_schema"]
Verbosity: TypeAlias = Literal["low", "medium", "high"]

# Fields without an effect on answers: caching, storage, billing and speed at the provider.
CHAT_HARMLESS = frozenset(
    {
        "prediction",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)
RESPONSES_HARMLESS = frozenset(
    {
        "access_programs",
        "context_management",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "stream_options",
        "truncation",
        "user",
    }
)
# Fields that agents don't support, each with its harmless values.
CHAT_REFUSED: Mapping[str, tuple[object, ...]] = MappingProxyType(
    {
        "audio": (),
        "function_call": ("none", "auto"),
        "functions": ([],),
        "modalities": (["text"],),
        "moderation": (),
        "web_search_options": (),
    }
)
RESPONSES_REFUSED: Mapping[str, tuple[object, ...]] = MappingProxyType(
    {
        "image": ({}, {"context_compression": "auto"}, {"context_compression": "disabled"}),
        "max_tool_calls": (),
        "moderation": (),
        "prompt": (),
    }
)


class OpenAIRequest(ModelOptions, kw_only=True):
    """Fields common to both APIs."""

    model: ShortText | None = None
    stream: bool | None = None
    on_disconnect: OnDisconnect | None = None
    metadata: dict[str, Any] | None = None
    tools: Annotated[
        list[dict[str, Any]] | None,
        msgspec.Meta(description="Functions that you run, in addition to the agent's own tools."),
    ] = None
    tool_choice: Annotated[
        str | dict[str, Any] | None,
        msgspec.Meta(
            description="auto, none, required, or one of your functions. Applies to the next answer."
        ),
    ] = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    stop: str | Annotated[list[str], msgspec.Meta(max_length=STOPS_MAX)] | None = None
    seed: int | None = None
    presence_penalty: Annotated[float, msgspec.Meta(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, msgspec.Meta(ge=-2, le=2)] | None = None
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    parallel_tool_calls: bool | None = None

    @property
    def is_detached(self) -> bool:
        """Return whether the run continues after its reader disconnects."""
        return self.on_disconnect == "detach"


class StreamOptions(msgspec.Struct):
    """`stream_options` of a Chat Completions request."""

    include_usage: bool | None = None


class JsonSchemaFormat(msgspec.Struct, kw_only=True):
    """`json_schema` of a response format: the schema of the answer."""

    name: ShortText = "output"
    description: ShortText | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, kw_only=True):
    """`response_format` of a Chat Completions request."""

    type: FormatType
    json_schema: JsonSchemaFormat | None = None


class TextFormat(JsonSchemaFormat, kw_only=True):
    """`text.format` of a Responses request."""

    type: FormatType


class TextOptions(msgspec.Struct, kw_only=True):
    """`text` of a Responses request."""

    format: TextFormat | None = None
    verbosity: Verbosity | None = None


class ChatRequest(OpenAIRequest, kw_only=True):
    """The body of POST /v1/chat/completions."""

    messages: list[RawMessage]
    verbosity: Verbosity | None = None
    logit_bias: dict[str, float] | None = None
    response_format: ResponseFormat | None = None
    stream_options: StreamOptions | None = None
    session_id: SessionId | None = None


class Conversation(msgspec.Struct):
    """`conversation` as an object."""

    id: str


class ResponsesRequest(OpenAIRequest, kw_only=True):
    """The body of POST /v1/responses."""

    input: RawInput
    text: TextOptions | None = None
    instructions: str | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: str | Conversation | None = None
    conversation_history: list[HistoryItem] | None = None

    @property
    def is_detached(self) -> bool:
        """Return whether the run continues after its reader disconnects, as background responses do."""
        return bool(self.background) or self.on_disconnect == "detach"

    @property
    def verbosity(self) -> str | None:
        """Return the verbosity from `text`."""
        return self.text.verbosity if self.text else None

    @property
    def logit_bias(self) -> None:
        """Return nothing: this API has no such field."""

    @property
    def conversation_name(self) -> str:
        """Return the conversation's id, if any."""
        named = self.conversation
        return named.id if isinstance(named, Conversation) else named or ""


class InputTokensRequest(ResponsesRequest, kw_only=True):
    """The body of POST /v1/responses/input_tokens. Fields that don't affect the count are ignored."""

    input: RawInput | None = None  # pyright: ignore[reportIncompatibleVariableOverride]  # here it is optional


class CompactResponseRequest(msgspec.Struct, kw_only=True):
    """The body of POST /v1/responses/compact. Caching and billing fields are ignored."""

    model: ShortText | None = None
    input: RawInput | None = None
    instructions: str | None = None
    previous_response_id: str | None = None


class CreateConversationRequest(msgspec.Struct, kw_only=True):
    """The body of POST /v1/conversations."""

    items: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None


class ChangeConversationRequest(msgspec.Struct, kw_only=True):
    """The body of POST /v1/conversations/{session_id}."""

    metadata: dict[str, Any] | None


class InputTokens(ResponseBody, frozen=True):
    """The number of input tokens."""

    object: Literal["response.input_tokens"]
    input_tokens: int


class ConversationShown(ResponseBody, frozen=True):
    """A session as an OpenAI conversation."""

    id: str
    object: Literal["conversation"]
    created_at: int
    metadata: dict[str, str]


class DeletedConversation(ResponseBody, frozen=True):
    """The session is deleted."""

    id: str
    object: Literal["conversation.deleted"]
    deleted: Annotated[bool, ALWAYS_TRUE]


class PromptTokensDetails(ResponseBody, frozen=True):
    """Input tokens from the provider's cache."""

    cached_tokens: int
    cache_write_tokens: int


class OutputTokensDetails(ResponseBody, frozen=True):
    """Output tokens used for reasoning."""

    reasoning_tokens: int


class ChatUsage(ResponseBody, frozen=True):
    """Usage of a chat completion."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: OutputTokensDetails


class ChatFunction(ResponseBody, frozen=True):
    """The function of a tool call, with its arguments as JSON text."""

    name: str
    arguments: str


class ToolCallShown(ResponseBody, frozen=True):
    """A call to a client-supplied tool, which the client runs."""

    id: str
    type: Literal["function"]
    function: ChatFunction


class ChatMessage(ResponseBody, frozen=True):
    """The answer of a chat completion."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None
    annotations: tuple[dict[str, Any], ...]
    tool_calls: tuple[ToolCallShown, ...] | UnsetType = UNSET


class ChatChoice(ResponseBody, frozen=True):
    """The only choice of a chat completion."""

    index: int
    message: ChatMessage
    logprobs: None
    finish_reason: Literal["stop", "length", "content_filter", "tool_calls"]


class PersonNeeded(ResponseBody, frozen=True):
    """The run is waiting for a person. This client can't answer, so only the response ends."""

    waiting_for: Literal["approval", "question"]
    id: str
    run_id: str
    text: str
    url: str  # URL of the page where a person can answer


class ChatCompletion(ResponseBody, frozen=True):
    """An OpenAI chat completion."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: tuple[ChatChoice, ...]
    usage: ChatUsage
    holdfast: PersonNeeded | UnsetType = UNSET


class ResponseUsage(ResponseBody, frozen=True):
    """Usage of a response."""

    input_tokens: int
    input_tokens_details: PromptTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class CompactedResponse(ResponseBody, frozen=True):
    """A conversation, reduced to its user messages and a summary."""

    id: str
    object: Literal["response.compaction"]
    created_at: int
    output: tuple[dict[str, Any], ...]
    usage: ResponseUsage


class ResponseShown(ResponseBody, frozen=True):
    """An OpenAI response."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    error: dict[str, str] | None
    incomplete_details: dict[str, str] | None
    background: bool
    conversation: dict[str, str] | None
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, str]
    model: str
    output: tuple[dict[str, Any], ...]
    parallel_tool_calls: bool
    previous_response_id: str | None
    reasoning: dict[str, str | None]
    store: bool
    temperature: float
    text: dict[str, Any]
    tool_choice: str | dict[str, str]
    tools: tuple[dict[str, Any], ...]
    top_p: float
    truncation: str
    usage: ResponseUsage | None
    completed_at: int | None
    presence_penalty: float
    frequency_penalty: float
    top_logprobs: int
    max_tool_calls: int | None
    service_tier: str
    safety_identifier: str | None
    prompt_cache_key: str | None
    holdfast: PersonNeeded | UnsetType = UNSET


class InputItems(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """A list of OpenAI response items."""

    data: tuple[dict[str, Any], ...]
    first_id: str | None
    last_id: str | None
    has_more: bool


class DeletedResponse(ResponseBody, frozen=True):
    """The response is permanently hidden."""

    id: str
    object: Literal["response.deleted"]
    deleted: Annotated[bool, ALWAYS_TRUE]


class ModelShown(ResponseBody, frozen=True):
    """A name that `model` accepts."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class AnthropicModel(ResponseBody, frozen=True):
    """A model in Anthropic's format."""

    type: Annotated[str, one_of("model")]
    id: str
    display_name: str
    created_at: str


class AnthropicModelList(ResponseBody, frozen=True):
    """All models in Anthropic's format."""

    data: tuple[AnthropicModel, ...]
    has_more: bool
    first_id: str | None
    last_id: str | None


class ModelList(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """All models in OpenAI's format."""

    data: tuple[ModelShown, ...]
