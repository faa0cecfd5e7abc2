"""Receives the answer of one attempt of a relayed call and forwards its bytes to the client."""

from collections.abc import Callable, Mapping
from typing import Protocol

from typing_extensions import override

from holdfast.decisions.deadlines import Sign, sign_of
from holdfast.features.relay.response_buffer import ResponseBuffer, head_back, split_lifecycle
from holdfast.interfaces.model import Answer
from holdfast.model_events import (
    ErrorReported,
    Finished,
    ModelEvent,
)
from holdfast.models.exchange import GOOD, AnswerReceiver
from holdfast.models.wire import StreamParser


class RelayReceiver(AnswerReceiver, Protocol):
    """Takes one attempt's answer, and shows the client nothing of it before there is content."""

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
    """Do nothing before later buffer."""


class PassThrough(RelayReceiver):
    """Passes the bytes of one attempt's answer on, from its first content; until then it holds them."""

    def __init__(
        self,
        buffer: ResponseBuffer,
        *,
        is_streamed: bool,
        before_first: Callable[[], None],
        make_parser: Callable[[], StreamParser],
    ) -> None:
        self.said = False
        self.is_full = False
        self.produced = True  # an answer that says nothing is passed on like any other
        self.status = 0
        self._is_refused = False  # the provider reported an error
        self.headers: Mapping[str, str] = {}
        self._buffer = buffer
        self._pass_on = buffer.pass_on
        self._is_streamed = is_streamed
        self._before_first = before_first
        self._make_parser = make_parser
        self._progressed = False
        self._held: list[bytes] = []

    @property
    @override
    def has_provider_error(self) -> bool:
        return self._is_refused

    @override
    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.status, self.headers = status, headers
        self._is_refused = status not in GOOD
        self._buffer.expect_answer()

    @override
    def raw(self, piece: bytes) -> None:
        if self.said:
            self._pass_on(piece)
            return
        self._held.append(piece)
        if self._progressed and self._is_streamed:
            self._begin()
        elif self._buffer.head is not None and not self._buffer.has_lifecycle:
            self.show_opening()  # the client has its status, so there is no reason to wait

    @override
    def write_text(self, index: int, text: str) -> None:
        self._progressed = True

    @override
    def write(self, event: ModelEvent) -> None:
        if isinstance(event, ErrorReported):
            self._is_refused = True
            return
        self._progressed = self._progressed or sign_of(event) is Sign.PROGRESS

    @override
    def cut(self) -> None:
        """Nothing to do: no answer is too long to be passed on."""

    @override
    def answer(self, call_id: str, finish: Finished) -> Answer:
        if not self.said:
            self._begin()
        self._buffer.complete()
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
        self._buffer.has_lifecycle = True
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
        if self._buffer.has_lifecycle:
            held = split_lifecycle(held, self._make_parser())[1]
        self._buffer.has_content = True
        self._pass_on(held)

    def _show_head(self) -> None:
        is_stream = self._is_streamed and self.status in GOOD
        head = head_back(self.status, self.headers, is_stream=is_stream)
        self._buffer.begin(head.status, head.headers)
