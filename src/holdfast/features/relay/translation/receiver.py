"""Passes an answer on in the client's protocol, if its target speaks another one."""

import time
from collections.abc import Callable, Mapping

from msgspec import Struct, field
from typing_extensions import override

from holdfast.decisions.deadlines import Sign, sign_of
from holdfast.features.relay.attempts import RelayReceiver
from holdfast.features.relay.response_buffer import ResponseBuffer, ResponseHead, own_stream_head
from holdfast.features.relay.translation.as_anthropic import AnthropicEncoder
from holdfast.features.relay.translation.as_chat import ChatEncoder
from holdfast.features.relay.translation.as_responses import ResponsesEncoder
from holdfast.features.relay.translation.encoding import AnswerEncoder
from holdfast.interfaces.ids import new_call_id
from holdfast.interfaces.model import Answer
from holdfast.model_events import Finished, ModelEvent, TextPiece, TokensUsed
from holdfast.targets import Wire

JSON_HEAD = ResponseHead(200, {"content-type": "application/json"})


class AnswerForm(Struct, frozen=True):
    """The format of the answer, as requested by the client."""

    model: str
    include_usage: bool = False  # of a chat stream
    fields: Mapping[str, object] = field(default_factory=dict[str, object])  # that a response repeats


def encoder_for(wire: Wire, asked: AnswerForm) -> AnswerEncoder:
    """A fresh encoder of one answer."""
    answer_id, created_s = new_call_id().removeprefix("call_"), int(time.time())
    match wire:
        case "chat":
            return ChatEncoder(answer_id, asked.model, created_s=created_s, include_usage=asked.include_usage)
        case "responses":
            return ResponsesEncoder(answer_id, asked.model, created_s=created_s, asked=asked.fields)
        case "anthropic":
            return AnthropicEncoder(answer_id, asked.model)


class TranslatingReceiver(RelayReceiver):
    """Encodes one attempt's answer for its client, from its first content; until then it holds the events."""

    def __init__(
        self,
        buffer: ResponseBuffer,
        encoder: AnswerEncoder,
        *,
        is_streamed: bool,
        before_first: Callable[[], None],
    ) -> None:
        self.said = False
        self.is_full = False
        self.produced = True
        self._reported = TokensUsed()
        self._buffer = buffer
        self._encoder = encoder
        self._is_streamed = is_streamed
        self._before_first = before_first
        self._held: list[ModelEvent] = []

    @property
    @override
    def has_provider_error(self) -> bool:
        return False  # the provider's error is translated to the client's protocol

    @override
    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self._buffer.expect_answer()

    @override
    def raw(self, piece: bytes) -> None:
        pass

    @override
    def write_text(self, index: int, text: str) -> None:
        self.write(TextPiece(index, text))

    @override
    def write(self, event: ModelEvent) -> None:
        if isinstance(event, TokensUsed):
            self._reported = event
        if not self._is_streamed:
            self._encoder.add(event)
        elif self.said:
            self._buffer.pass_on(self._encoder.add(event))
        else:
            self._held.append(event)
            if sign_of(event) is Sign.PROGRESS:
                self._show()

    @override
    def cut(self) -> None:
        """Nothing to do: no answer is too long to be passed on."""

    @override
    def answer(self, call_id: str, finish: Finished) -> Answer:
        if self._is_streamed:
            if not self.said:
                self._show()
            self._buffer.pass_on(self._encoder.ending(finish, self._reported))
        else:
            self.said = True
            self._before_first()
            self._buffer.begin(JSON_HEAD.status, JSON_HEAD.headers)
            self._buffer.pass_on(self._encoder.whole(finish, self._reported))
        self._buffer.complete()
        return Answer(call_id, finish.reason)

    @override
    def show_opening(self) -> bool:
        return False

    @override
    def show_failure(self) -> None:
        raise AssertionError("there is no provider's error to be shown as it is")

    def _show(self) -> None:
        self.said = True
        self._before_first()
        head = own_stream_head()
        self._buffer.begin(head.status, head.headers)
        self._buffer.has_content = True
        opening = self._encoder.opening()  # the numbers of events begin with it
        held = [self._encoder.add(event) for event in self._held]
        self._buffer.pass_on(b"".join((b"" if self._buffer.has_lifecycle else opening, *held)))
        self._held = []
