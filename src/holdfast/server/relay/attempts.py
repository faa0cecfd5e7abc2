"""What takes the answer of one attempt at a relayed call: its bytes, on their way back to the client."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from typing_extensions import override

from holdfast.decisions.deadlines import Sign, sign_of
from holdfast.interfaces.model import Answer
from holdfast.messages import CHARS_PER_TOKEN
from holdfast.model_events import (
    ArgsPiece,
    ErrorReported,
    Finished,
    ModelEvent,
    ReasoningPiece,
    TextPiece,
    TokensUsed,
)
from holdfast.models.exchange import GOOD, AnswerReceiver
from holdfast.models.wire import StreamParser
from holdfast.server.relay.output import RelayOutput, head_back, split_lifecycle
from holdfast.targets import Target

_NO_TOKENS = TokensUsed()


@dataclass(slots=True)
class AttemptMeter:
    """One attempt's usage: as its provider reported it, and an estimate of the rest.

    A provider reports usage with the last event, so an attempt that ends early would otherwise be free.
    """

    target: Target
    input_tokens: int  # estimated
    answers: int = 1  # that were asked for; only the text of the first is counted
    is_sent: bool = False
    is_whole: bool = False
    is_refused: bool = False  # the provider reported an error
    chars: int = 0  # of text, reasoning and arguments
    reported: TokensUsed = _NO_TOKENS

    def add(self, event: ModelEvent) -> None:
        """Read one event of the answer."""
        if isinstance(event, TextPiece | ReasoningPiece | ArgsPiece):
            self.chars += len(event.text)
        elif isinstance(event, TokensUsed):
            self.reported = event
        elif isinstance(event, ErrorReported):
            self.is_refused = True

    def unreported(self) -> TokensUsed:
        """The estimate of what the provider hasn't reported; nothing if it has reported everything."""
        reported = self.reported
        has_report = bool(reported.input_tokens or reported.output_tokens)
        is_free = not self.is_sent or (self.is_refused and not self.chars)
        if is_free or (self.is_whole and has_report):
            return _NO_TOKENS
        made = self.answers * max(1, self.chars // CHARS_PER_TOKEN) if self.chars else 0
        return TokensUsed(
            input_tokens=0 if has_report else self.input_tokens,
            output_tokens=max(0, made - reported.output_tokens),
        )


class RelayReceiver(AnswerReceiver, Protocol):
    """Takes one attempt's answer, and shows the client nothing of it before there is content."""

    meter: AttemptMeter

    @property
    def has_provider_error(self) -> bool:
        """Whether the provider itself said what went wrong, in a form that its client can read."""
        ...

    def show_opening(self) -> bool:
        """Pass on the opening events; False if there are none yet."""
        ...

    def show_failure(self) -> None:
        """Pass on what the provider said about its failure, as it said it."""
        ...


def _nothing() -> None:
    """What is left to do before later output."""


class PassThrough(RelayReceiver):
    """Passes the bytes of one attempt's answer on, from its first content; until then it holds them."""

    def __init__(
        self,
        output: RelayOutput,
        meter: AttemptMeter,
        *,
        is_streamed: bool,
        before_first: Callable[[], None],
        make_parser: Callable[[], StreamParser],
    ) -> None:
        self.said = False
        self.is_full = False
        self.produced = True  # an answer that says nothing is passed on like any other
        self.meter = meter
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self._output = output
        self._pass_on = output.pass_on
        self._add_text = output.secrets.add_text
        self._is_streamed = is_streamed
        self._before_first = before_first
        self._make_parser = make_parser
        self._progressed = False
        self._held: list[bytes] = []

    @property
    @override
    def has_provider_error(self) -> bool:
        return self.meter.is_refused

    @override
    def connected(self) -> None:
        self.meter.is_sent = True

    @override
    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.status, self.headers = status, headers
        self.meter.is_refused = status not in GOOD
        self._output.expect_answer()

    @override
    def raw(self, piece: bytes) -> None:
        if self.said:
            self._pass_on(piece)
            return
        self._held.append(piece)
        if self._progressed and self._is_streamed:
            self._begin()
        elif self._output.head is not None and not self._output.has_lifecycle:
            self.show_opening()  # the client has its status, so there is no reason to wait

    @override
    def write_text(self, index: int, text: str) -> None:
        self._progressed = True
        self.meter.chars += len(text)
        self._add_text(index, text)

    @override
    def write(self, event: ModelEvent) -> None:
        self.meter.add(event)
        self._output.secrets.add_event(event)
        if isinstance(event, ErrorReported):
            return
        self._progressed = self._progressed or sign_of(event) is Sign.PROGRESS

    @override
    def cut(self) -> None:
        """Nothing to do: no answer is too long to be passed on."""

    @override
    def answer(self, call_id: str, finish: Finished) -> Answer:
        if not self.said:
            self._begin()
        self.meter.is_whole = True
        self._output.complete()
        return Answer(call_id, finish.reason)

    @override
    def show_opening(self) -> bool:
        if self.said or self.status not in GOOD or not self._is_streamed:
            return False
        opening, rest = split_lifecycle(b"".join(self._held), self._make_parser())
        if not opening:
            return False
        self._show_head()
        self._held = [rest] if rest else []
        self._output.has_lifecycle = True
        self._pass_on(opening)
        return True

    @override
    def show_failure(self) -> None:
        if not self.said:
            self._begin()

    def _begin(self) -> None:
        self.said = True
        self._before_first()
        self._before_first = _nothing  # it leads back here through the call
        self._show_head()
        held = b"".join(self._held)
        self._held = []
        if self._output.has_lifecycle:
            held = split_lifecycle(held, self._make_parser())[1]
        self._output.has_content = True
        self._pass_on(held)

    def _show_head(self) -> None:
        is_stream = self._is_streamed and self.status in GOOD
        head = head_back(self.status, self.headers, is_stream=is_stream)
        self._output.begin(head.status, head.headers)
