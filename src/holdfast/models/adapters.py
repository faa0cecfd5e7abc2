"""The three wire formats: how each one builds a request and parses an answer."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from holdfast.messages import ModelRequest
from holdfast.models import anthropic_request, chat_request, responses_request
from holdfast.models.anthropic import AnthropicParser
from holdfast.models.chat_completions import ChatParser
from holdfast.models.output_tool import OutputToolParser, output_tool_name
from holdfast.models.responses import ResponsesParser
from holdfast.models.stop_sequences import StopParser, stops_to_find
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
    outputs_by_tool: Callable[[ModelRequest, Target], bool]

    def parser_of(self, request: ModelRequest, target: Target) -> StreamParser:
        """Reads the answer to this request."""
        parser = self.parser()
        if request.output is not None and self.outputs_by_tool(request, target):
            parser = OutputToolParser(parser, output_tool_name(request))
        stops = stops_to_find(request, target)
        return StopParser(parser, stops, request) if stops else parser


ADAPTERS: dict[Wire, WireAdapter] = {
    "responses": WireAdapter(responses_request.build, ResponsesParser, responses_request.outputs_by_tool),
    "chat": WireAdapter(chat_request.build, ChatParser, chat_request.outputs_by_tool),
    "anthropic": WireAdapter(anthropic_request.build, AnthropicParser, anthropic_request.outputs_by_tool),
}
