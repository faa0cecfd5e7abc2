"""The three wire formats: how each one builds a request and parses an answer."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from holdfast.messages import ModelRequest
from holdfast.models import anthropic_request, chat_request, responses_request
from holdfast.models.anthropic import AnthropicParser
from holdfast.models.chat_completions import ChatParser
from holdfast.models.responses import ResponsesParser
from holdfast.models.wire import Blobs, StreamParser, WireRequest
from holdfast.targets import Target, Wire


class Build(Protocol):
    """Builds the POST for a request to a target; `blobs` has the attachments that its parts name."""

    def __call__(self, request: ModelRequest, target: Target, *, blobs: Blobs) -> WireRequest:
        """The POST for this request."""
        ...


class WireAdapter(msgspec.Struct, frozen=True):
    """One wire."""

    build: Build
    parser: Callable[[], StreamParser]


ADAPTERS: dict[Wire, WireAdapter] = {
    "responses": WireAdapter(responses_request.build, ResponsesParser),
    "chat": WireAdapter(chat_request.build, ChatParser),
    "anthropic": WireAdapter(anthropic_request.build, AnthropicParser),
}
