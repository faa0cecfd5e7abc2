"""Passes an answer on in the client's protocol, if its target speaks another one."""

import time
from collections.abc import Callable, Mapping

from typing_extensions import override

from holdfast.decisions.deadlines import Sign, sign_of
from holdfast.interfaces.ids import new_call_id
from holdfast.interfaces.model import Answer
from holdfast.model_events import Finished, ModelEvent, TextPiece
from holdfast.models.exchange import GOOD
from holdfast.server.relay.attempts import AttemptMeter, RelayReceiver
from holdfast.server.relay.output import RelayOutput, ResponseHead, own_stream_head
from holdfast.server.relay.translation.as_anthropic import AnthropicEncoder
from holdfast.server.relay.translation.as_chat import ChatEncoder
from holdfast.server.relay.translation.as_responses import ResponsesEncoder
from holdfast.server.relay.translation.encoding import AnswerEncoder
from holdfast.targets import Wire

JSON_HEAD = ResponseHead(200, {"content-type": "application/json"})


def encoder_for(wire: Wire, model: str, *, include_usage: bool) -> AnswerEncoder:
    """A fresh encoder of one answer; `include_usage` is for chat streams."""
    answer_id, created_s = new_call_id().removeprefix("call_"), int(time.time())
    match wire:
        case "chat":
            return ChatEncoder(answer_id, model, created_s=created_s, include_usage=include_usage)
        case "responses":
            return ResponsesEncoder(answer_id, model, created_s=created_s)
        case "anthropic":
            return AnthropicEncoder(answer_id, model)


class TranslatingReceiver(RelayReceiver):
    """Encodes one attempt's answer for its client, from its first content; until then it holds the frames."""

    def __init__(
        self,
        output: RelayOutput,
        encoder: AnswerEncoder,
        *,
        meter: AttemptMeter,
        is_streamed: bool,
        before_first: Callable[[], None],
    ) -> None:
        self.said = False
        self.is_full = False
        self.produced = True
        self.meter = meter
        self._output = output
        self._encoder = encoder
        self._is_streamed = is_streamed
        self._before_first = before_first
        self._held: list[bytes] = []

    @property
    @override
    def has_provider_error(self) -> bool:
        return False  # what the provider says about an error is told in the client's protocol

    @override
    def connected(self) -> None:
        self.meter.is_sent = True

    @override
    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.meter.is_refused = status not in GOOD
        self._output.expect_answer()

    @override
    def raw(self, piece: bytes) -> None:
        pass

    @override
    def write_text(self, index: int, text: str) -> None:
        self.write(TextPiece(index, text))

    @override
    def write(self, event: ModelEvent) -> None:
        self.meter.take(event)
        self._output.secrets.take(event)
        frames = self._encoder.add(event)
        if not self._is_streamed:
            return
        if not self.said:
            self._held.append(frames)
            if sign_of(event) is Sign.PROGRESS:
                self._show()
        elif frames:
            self._output.pass_on(frames)

    @override
    def cut(self) -> None:
        """Nothing to do: no answer is too long to be passed on."""

    @override
    def answer(self, call_id: str, finish: Finished) -> Answer:
        if self._is_streamed:
            if not self.said:
                self._show()
            self._output.pass_on(self._encoder.ending(finish, self.meter.reported))
        else:
            self.said = True
            self._before_first()
            self._output.begin(JSON_HEAD.status, JSON_HEAD.headers)
            self._output.pass_on(self._encoder.whole(finish, self.meter.reported))
        self.meter.is_whole = True
        self._output.complete()
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
        self._output.begin(head.status, head.headers)
        self._output.has_content = True
        opening = b"" if self._output.has_lifecycle else self._encoder.opening()
        self._output.pass_on(b"".join((opening, *self._held)))
        self._held = []
