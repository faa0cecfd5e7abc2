"""The three wire formats: how each one builds a request and parses an answer. Imported one by one.

For wires without stop sequences, this module applies them: the answer ends before the first one.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from functools import cache
from typing import Protocol, cast

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from holdfast.messages import CHARS_PER_TOKEN, ModelRequest
from holdfast.model_events import LONG_CHARS, Finished, ItemClosed, ModelEvent, TextPiece, TokensUsed
from holdfast.models.output_tool import OutputToolParser, output_tool_name
from holdfast.models.sse import FrameRun, SseFrame
from holdfast.models.wire import Blobs, StreamParser, WireRequest
from holdfast.targets import SAMPLING, Target, Wire, unsupported

STOP = "stop"


def stops_to_find(request: ModelRequest, target: Target) -> tuple[str, ...]:
    """The request's stop sequences, if the target's wire doesn't support them."""
    given = request.sampling.get(STOP)
    if STOP in SAMPLING[target.wire] or not given:
        return ()
    stops = [given] if isinstance(given, str) else cast("list[str]", given)
    return tuple(filter(None, stops))


class StopParser(StreamParser):
    """Another parser, whose answer ends before the first stop sequence in its text.

    The end of a text that may begin a stop sequence is held back until more text decides.
    """

    def __init__(self, parser: StreamParser, stops: Sequence[str], request: ModelRequest) -> None:
        self._parser = parser
        self._stops = stops
        self._request = request
        self._is_cut = False
        self._held: dict[int, str] = {}  # by item: the end of its text
        self._shown: dict[int, list[str]] = {}
        self._shown_chars = 0

    @property
    def finished(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it is only read
        """Whether the answer is complete."""
        return self._is_cut or self._parser.finished

    @override
    def text_of(self, run: FrameRun) -> None:
        return None  # all text is searched for stop sequences

    @override
    def parse(self, frame: SseFrame) -> Sequence[ModelEvent]:
        return () if self._is_cut else list(self._cut(self._parser.parse(frame)))

    @override
    def end(self) -> Sequence[ModelEvent]:
        return () if self._is_cut else list(self._cut(self._parser.end()))

    @override
    def answer(self, body: bytes) -> Sequence[ModelEvent]:
        return list(self._cut(self._parser.answer(body)))

    def _cut(self, events: Sequence[ModelEvent]) -> Iterator[ModelEvent]:
        for event in events:
            if isinstance(event, TextPiece):
                yield from self._more(event.index, event.text)
            elif isinstance(event, ItemClosed) and event.kind == "text":
                yield from self._closed(event)
            else:
                yield event
            if self._is_cut:
                return

    def _more(self, index: int, text: str) -> Iterator[ModelEvent]:
        text = self._held.pop(index, "") + text
        at, stop = self._first_stop(text)
        if stop:
            yield from self._show(index, text[:at])
            yield from self._ending(index, stop)
            return
        held = max(_overlap(text, stop) for stop in self._stops)
        if held:
            self._held[index] = text[-held:]
        yield from self._show(index, text[: len(text) - held])

    def _closed(self, item: ItemClosed) -> Iterator[ModelEvent]:
        if item.index not in self._shown and item.index not in self._held:  # it came as a whole
            yield from self._more(item.index, item.text)
        if not self._is_cut:
            yield from self._show(item.index, self._held.pop(item.index, ""))
            yield item

    def _show(self, index: int, text: str) -> Iterator[ModelEvent]:
        if text:
            self._shown.setdefault(index, []).append(text)
            self._shown_chars += len(text)
            yield TextPiece(index, text)

    def _ending(self, index: int, stop: str) -> Iterator[ModelEvent]:
        """The closing events, with estimated usage, because the provider won't report any."""
        self._is_cut = True
        whole = "".join(self._shown.get(index, ()))
        yield ItemClosed(index, "text", whole if len(whole) <= LONG_CHARS else "")
        yield TokensUsed(
            input_tokens=self._request.input_tokens,
            output_tokens=max(1, self._shown_chars // CHARS_PER_TOKEN),
            is_estimate=True,
        )
        yield Finished("stop", stop_sequence=stop, is_early=True)

    def _first_stop(self, text: str) -> tuple[int, str]:
        """The stop sequence that is complete first, and where it begins; empty if there is none."""
        found = [(at + len(stop), at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        return min(found, default=(0, 0, ""))[1:]


def _overlap(text: str, stop: str) -> int:
    """How many of the last characters may be the beginning of the stop sequence."""
    at = text.find(stop[0], max(0, len(text) - len(stop) + 1))
    while at >= 0 and not stop.startswith(text[at:]):
        at = text.find(stop[0], at + 1)
    return len(text) - at if at >= 0 else 0


class Build(Protocol):
    """Builds the POST for a request to a target; `blobs` has the attachments that its parts name."""

    def __call__(self, request: ModelRequest, target: Target, *, blobs: Blobs) -> WireRequest:
        """The POST for this request."""
        ...


def without(request: ModelRequest, options: Container[str]) -> ModelRequest:
    """The request without these options."""
    if not options:
        return request
    return replace(
        request,
        reasoning_effort="" if "reasoning_effort" in options else request.reasoning_effort,
        temperature=None if "temperature" in options else request.temperature,
        max_output_tokens=None if "max_output_tokens" in options else request.max_output_tokens,
        sampling={name: value for name, value in request.sampling.items() if name not in options},
    )


class WireAdapter(msgspec.Struct, frozen=True):
    """One wire."""

    post: Build
    parser: Callable[[], StreamParser]
    outputs_by_tool: Callable[[ModelRequest, Target], bool]

    def build(self, request: ModelRequest, target: Target, *, blobs: Blobs) -> WireRequest:
        """The POST for this request, without options that the target refuses."""
        return self.post(without(request, unsupported(target, request)), target, blobs=blobs)

    def parser_of(self, request: ModelRequest, target: Target) -> StreamParser:
        """Reads the answer to this request."""
        parser = self.parser()
        if request.output is not None and self.outputs_by_tool(request, target):
            parser = OutputToolParser(parser, output_tool_name(request))
        stops = stops_to_find(request, target)
        return StopParser(parser, stops, request) if stops else parser


@cache
def adapter_of(wire: Wire) -> WireAdapter:
    """Return the adapter of a wire, imported on first use."""
    match wire:
        case "responses":
            from holdfast.models import responses_request
            from holdfast.models.responses import ResponsesParser

            return WireAdapter(responses_request.build, ResponsesParser, responses_request.outputs_by_tool)
        case "chat":
            from holdfast.models import chat_request
            from holdfast.models.chat_completions import ChatParser

            return WireAdapter(chat_request.build, ChatParser, chat_request.outputs_by_tool)
        case "anthropic":
            from holdfast.models import anthropic_request
            from holdfast.models.anthropic import AnthropicParser

            return WireAdapter(anthropic_request.build, AnthropicParser, anthropic_request.outputs_by_tool)
