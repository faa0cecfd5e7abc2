"""The bodies of the OpenAI-compatible requests and responses."""

from typing import Any

import msgspec

from holdfast.api.runs import (
    HistoryItem,
    ModelOptions,
    OnDisconnect,
    RawInput,
    RawMessage,
    SessionId,
    ShortText,
)


class OpenAIRequest(ModelOptions, kw_only=True):
    """What the bodies of both APIs have in common."""

    model: ShortText | None = None
    stream: bool | None = None
    on_disconnect: OnDisconnect | None = None
    metadata: dict[str, Any] | None = None

    @property
    def is_detached(self) -> bool:
        """Whether the run goes on when its reader has left."""
        return self.on_disconnect == "detach"


class StreamOptions(msgspec.Struct):
    """`stream_options` of a Chat Completions request."""

    include_usage: bool | None = None


class ChatRequest(OpenAIRequest, kw_only=True):
    """The body of POST /v1/chat/completions; what is not named here is ignored."""

    messages: list[RawMessage]
    stream_options: StreamOptions | None = None
    session_id: SessionId | None = None


class Conversation(msgspec.Struct):
    """`conversation` as an object."""

    id: str


class ResponsesRequest(OpenAIRequest, kw_only=True):
    """The body of POST /v1/responses; what is not named here is ignored."""

    input: RawInput
    instructions: str | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: str | Conversation | None = None
    conversation_history: list[HistoryItem] | None = None

    @property
    def is_detached(self) -> bool:
        """Whether the run goes on when its reader has left; a response in the background is read later."""
        return bool(self.background) or self.on_disconnect == "detach"

    @property
    def conversation_name(self) -> str:
        """The conversation's name, if there is one."""
        named = self.conversation
        return named.id if isinstance(named, Conversation) else named or ""
