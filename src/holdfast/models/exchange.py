"""One exchange with a model server: from the first packet to the terminal marker or a failure's facts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.decisions.deadlines import CLOSE_REASONS, State
from holdfast.decisions.failure_rules import Stage
from holdfast.decisions.failures import Facts
from holdfast.interfaces.model import Answer, EventSink
from holdfast.messages import CHARS_PER_TOKEN
from holdfast.model_events import PIECES, ErrorReported, Finished, ModelEvent, TextPiece, TokensUsed
from holdfast.models.connection_errors import ConnectionBroken
from holdfast.models.error_bodies import read_error
from holdfast.models.http import ModelHttp, ModelResponse
from holdfast.models.sse import FrameRun, MalformedFrame, SseFrame, SseParser
from holdfast.models.watchdog import Watchdog
from holdfast.models.wire import StreamParser, WireRequest
from holdfast.values import CloseReason

GOOD = range(200, 300)
BLANK = b"\xef\xbb\xbf \t\r\n"  # may come before an answer: a byte order mark, white space
BLANK_BYTES_MAX = 64 * 1024
EXCERPT_BYTES_MAX = 200
ERROR_BYTES_MAX = 64 * 1024
ANSWER_BYTES_MAX = 64 * 1024 * 1024

_STAGES: dict[State, Stage] = {
    State.CONNECTING: "connecting",
    State.UPLOADING: "uploading",
    State.WAITING: "waiting",
}


class ExchangeEnd(msgspec.Struct, frozen=True):
    """How an exchange ended: with its terminal marker, or with the facts of its failure."""

    close_reason: CloseReason
    finish: Finished | None = None
    facts: Facts | None = None


class AnswerReceiver(Protocol):
    """Takes the answer of one attempt: its model events, and the bytes that they were parsed from.

    `raw` gets every byte of the body; in a stream, after the events that these bytes contain.
    """

    said: bool  # something of it is visible
    produced: bool  # there was text or a whole tool call
    is_full: bool  # it takes no more, and the answer ends here

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Take the head of the response; header names are in lower case."""
        ...

    def raw(self, piece: bytes) -> None:
        """Take bytes of the body."""
        ...

    def write_text(self, index: int, text: str) -> None:
        """Take more text of an item."""
        ...

    def write(self, event: ModelEvent) -> None:
        """Take one model event."""
        ...

    def cut(self) -> None:
        """End the answer here."""
        ...

    def answer(self, call_id: str, finish: Finished) -> Answer | None:
        """The complete answer; None if it says nothing and must be asked for again."""
        ...


_NO_TOKENS = TokensUsed()


class AttemptMeter(Struct):
    """Counts one attempt.

    A provider reports usage with the last event, so an attempt that ends early would otherwise be free.
    """

    input_tokens: int  # estimated
    answers: int = 1  # that the provider charges for; only the text of the first is counted
    is_sent: bool = False
    is_whole: bool = False
    is_refused: bool = False  # the provider sent an error, or hung up without a response
    chars: int = 0  # of text, reasoning and arguments
    reported: TokensUsed | None = None

    def total(self) -> TokensUsed | None:
        """The report, with an estimate of any count that it lacks; None if nothing was used."""
        reported = self.reported or _NO_TOKENS
        if not (self.answers and self.is_sent) or (self.is_refused and not self.chars):
            return self.reported
        made = reported.output_tokens
        if self.chars and not (self.is_whole and made):
            made = max(made, self.answers * max(1, self.chars // CHARS_PER_TOKEN))
        total = replace(reported, input_tokens=reported.input_tokens or self.input_tokens, output_tokens=made)
        return self.reported if total == reported else replace(total, is_estimate=True)


class ModelExchange:
    """One request and its answer. `run` may be awaited once; cancelling it closes the connection at once."""

    def __init__(
        self,
        request: WireRequest,
        parser: StreamParser,
        *,
        watchdog: Watchdog,
        receiver: AnswerReceiver,
        meter: AttemptMeter,
        sink: EventSink,
    ) -> None:
        self._request = request
        self._parser = parser
        self._text_of = parser.text_of
        self._receiver = receiver
        self._sink = sink
        self._watchdog = watchdog
        self._meter = meter
        self._finish: Finished | None = None
        self._error: ErrorReported | None = None
        self._in_text = False
        self._status = 0
        self._headers: dict[str, str] = {}

    async def run(self, http: ModelHttp, *, now_ms: Callable[[], int]) -> ExchangeEnd:
        """Send the request and read the answer; raises only CancelledError and what the sink raises."""
        broken: ConnectionBroken | None = None
        try:
            async with self._watchdog, http.post(self._request, self._watchdog) as reply:
                self._status, self._headers = reply.status, dict(reply.headers)
                self._meter.is_refused = reply.status not in GOOD
                self._receiver.begin(self._status, self._headers)
                await self._read_answer(reply)
        except TimeoutError:
            if self._watchdog.passed is None:
                raise
        except ConnectionBroken as error:
            broken = error
            self._meter.is_refused |= not self._status
        except MalformedFrame as error:
            broken = ConnectionBroken("protocol", str(error))
        if self._finish is not None:
            return ExchangeEnd("done", self._finish)
        return self._failed(broken, now_ms=now_ms())

    def _failed(self, broken: ConnectionBroken | None, *, now_ms: int) -> ExchangeEnd:
        passed = self._watchdog.passed
        bad_status = 0 if self._status in GOOD else self._status
        if not (broken or passed or bad_status or self._error):
            broken = ConnectionBroken("eof")  # it ended cleanly, but without its terminal marker
        facts = Facts(
            stage=_STAGES.get(self._watchdog.state, "streaming"),
            now_ms=now_ms,
            status=bad_status,
            headers=self._headers,
            error=self._error,
            broke=broken.how if broken else None,
            said=broken.said if broken else "",
            at_proxy=broken is not None and broken.at_proxy,
            deadline=passed,
        )
        return ExchangeEnd(CLOSE_REASONS[passed.kind] if passed else "peer", facts=facts)

    async def _read_answer(self, reply: ModelResponse) -> None:
        """Read the answer; its first byte tells what it is, as many servers send a wrong content type."""
        if reply.status not in GOOD:
            self._error = read_error(reply.status, await self._read_whole(reply, ERROR_BYTES_MAX))
            return
        start = await _read_start(reply)
        match start.lstrip(BLANK)[:1]:
            case b"<":
                self._error = read_error(reply.status, await self._read_whole(reply, ERROR_BYTES_MAX, start))
            case b"{" | b"[" | b'"':
                body = await self._read_whole(reply, ANSWER_BYTES_MAX, start)
                self._take(self._parser.answer(body.lstrip(BLANK)))
                if self._receiver.is_full:
                    self._cut()
            case _:
                await self._stream(reply, start)

    async def _stream(self, reply: ModelResponse, start: bytes) -> None:
        sse, sink, receiver = SseParser(), self._sink, self._receiver
        runs, pass_on = sse.runs, receiver.raw

        def feed(piece: bytes) -> bool:
            for run in runs(piece):
                self._feed(run)
            pass_on(piece)
            is_near_its_end = self._finish is not None or self._error is not None
            return sink.full or receiver.is_full or (is_near_its_end and self._is_over)

        enough = feed(start)
        start = start.lstrip(BLANK)[:EXCERPT_BYTES_MAX]
        while enough or await reply.body.each(feed):
            enough = False
            if self._is_over:
                return
            if self._receiver.is_full:
                self._cut()
                return
            await self._wait_for_room()
        for frame in sse.end():
            self._take(self._parser.parse(frame))
        self._take(self._parser.end())
        if self._receiver.is_full:
            self._cut()
        if start and self._watchdog.state in _STAGES and not sse.comments:
            raise MalformedFrame(f"no event stream: {start.decode(errors='replace')}")

    @property
    def _is_over(self) -> bool:
        """Whether to stop reading: the provider reported an error, or we ended the answer."""
        return self._error is not None or (self._finish is not None and self._finish.is_early)

    def _cut(self) -> None:
        """Cut off an answer that is too long: keep what there is, and read no more."""
        self._receiver.cut()
        self._finish = Finished("too_long")

    def _feed(self, run: FrameRun) -> None:
        while run.datas and not self._receiver.is_full:
            # Text is usually followed by more text, which can be processed in one step.
            piece = self._text_of(run) if self._in_text else None
            if piece is None:
                self._feed_singly(run)
            else:
                self._watchdog.progressed()
                self._meter.chars += len(piece.text)
                self._receiver.write_text(piece.index, piece.text)

    def _feed_singly(self, run: FrameRun) -> None:
        """Process frame by frame, up to the next text."""
        datas = iter(run.datas)
        for data in datas:
            events = self._parser.parse(SseFrame(run.event, data))
            self._take(events)
            self._in_text = bool(events) and isinstance(events[-1], TextPiece)
            if self._in_text:
                break
        run.datas = list(datas)

    async def _wait_for_room(self) -> None:
        """Wait for the journal to catch up; the peer's deadline is paused meanwhile."""
        self._watchdog.pause()
        await self._sink.room()
        self._watchdog.resume()

    async def _read_whole(self, reply: ModelResponse, bytes_max: int, start: bytes = b"") -> bytes:
        body = bytearray(start)
        while len(body) <= bytes_max and (piece := await reply.body.read()):
            body += piece
        whole = bytes(body[:bytes_max])
        self._receiver.raw(whole)
        return whole

    def _take(self, events: Sequence[ModelEvent]) -> None:
        for event in events:
            self._watchdog.observe(event)
            if isinstance(event, PIECES):
                self._meter.chars += len(event.text)
            elif isinstance(event, TokensUsed):
                self._meter.reported = event
            elif isinstance(event, Finished):
                self._finish = event
                self._meter.is_whole = True
            elif isinstance(event, ErrorReported):
                self._error = event
                self._meter.is_refused = True
            self._receiver.write(event)


async def _read_start(reply: ModelResponse) -> bytes:
    """The answer up to its first piece that isn't blank; empty if there is none."""
    start = b""
    while len(start) < BLANK_BYTES_MAX and (piece := await reply.body.read()):
        start += piece
        if piece.strip(BLANK):
            break
    return start
