"""A relayed request as the retry loop sees it: the client's bytes, and the answer's on their way back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from typing_extensions import override

from holdfast.decisions import retry
from holdfast.decisions.deadlines import Sign, sign_of
from holdfast.decisions.relayed import decide_relayed
from holdfast.interfaces.model import Answer, EventSink
from holdfast.model_events import ErrorReported, Finished, ModelEvent
from holdfast.models.adapters import ADAPTERS
from holdfast.models.anthropic_request import API_VERSION
from holdfast.models.call_request import AskForLess, CallRequest
from holdfast.models.exchange import GOOD, AnswerReceiver
from holdfast.models.wire import StreamParser, WireRequest, bearer
from holdfast.server.relay.lifecycle import RelayParser
from holdfast.server.relay.output import RelayOutput, head_back, own_stream_head, split_lifecycle
from holdfast.server.relay.raw_request import RawRequest
from holdfast.targets import Target
from holdfast.values import Failure


@dataclass(frozen=True, slots=True)
class SentAlong:
    """What goes up with the body: headers that may pass, the query, and where the request has been."""

    headers: Mapping[str, str]
    query: str
    via: str


class RelayedRequest(CallRequest):
    """A client's bytes for a target that speaks the same wire; only the model's value is changed."""

    def __init__(self, raw: RawRequest, output: RelayOutput, *, along: SentAlong, wait_ms_max: int) -> None:
        self.model = ""
        self.input_tokens = raw.input_tokens
        self.asks_to_reason = raw.asks_to_reason
        self.is_streamed = raw.is_streamed
        self.wait_ms_max = wait_ms_max
        self.newest: PassThrough | None = None  # what takes the answer of the latest attempt
        self._raw = raw
        self._output = output
        self._along = along
        self._wait_ms_max = wait_ms_max

    @override
    def over_window_tokens(self, target: Target) -> int:
        return 0  # its provider decides

    @override
    def decide(self, failure: Failure, history: retry.History) -> retry.Decision:
        has_content = self._output.has_content
        return decide_relayed(failure, history, has_content=has_content, wait_ms_max=self._wait_ms_max)

    @override
    async def shorten(self) -> bool:
        raise AssertionError("a relayed request is never changed")

    @override
    def ask_for_less(self, target: Target, decision: AskForLess) -> None:
        raise AssertionError("a relayed request is never changed")

    @override
    async def build(self, target: Target) -> tuple[WireRequest, StreamParser]:
        assert target.wire == self._raw.wire, "bytes are passed on to their own wire"
        body = self._raw.with_model(target.model)
        request = wire_request(target, self._output.surface.path, body=body, along=self._along)
        return request, RelayParser(ADAPTERS[target.wire].parser())

    @override
    def receiver(
        self, sink: EventSink, target: Target, *, before_first: Callable[[], None]
    ) -> AnswerReceiver:
        self.newest = PassThrough(
            self._output,
            is_streamed=self.is_streamed,
            before_first=before_first,
            make_parser=ADAPTERS[self._raw.wire].parser,
        )
        return self.newest

    def commit(self) -> None:
        """Begin the client's response now, with what the latest attempt has brought so far."""
        if self._output.head is None and (self.newest is None or not self.newest.show_opening()):
            head = own_stream_head()
            self._output.begin(head.status, head.headers)


class PassThrough(AnswerReceiver):
    """Passes the bytes of one attempt's answer on, from its first content; until then it holds them."""

    def __init__(
        self,
        output: RelayOutput,
        *,
        is_streamed: bool,
        before_first: Callable[[], None],
        make_parser: Callable[[], StreamParser],
    ) -> None:
        self.said = False
        self.is_full = False
        self.produced = True  # an answer that says nothing is passed on like any other
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self._reported_error = False
        self._output = output
        self._pass_on = output.pass_on
        self._is_streamed = is_streamed
        self._before_first = before_first
        self._make_parser = make_parser
        self._progressed = False
        self._held: list[bytes] = []

    @property
    def has_provider_error(self) -> bool:
        """Whether the provider itself said what went wrong, by a status or in its stream."""
        return self._reported_error or (bool(self.status) and self.status not in GOOD)

    @override
    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.status, self.headers = status, headers

    @override
    def raw(self, piece: bytes) -> None:
        if self.said:
            self._pass_on(piece)
            return
        self._held.append(piece)
        if self._progressed and self._is_streamed:
            self._begin()

    @override
    def write_text(self, index: int, text: str) -> None:
        self._progressed = True

    @override
    def write(self, event: ModelEvent) -> None:
        if sign_of(event) is Sign.PROGRESS:
            self._progressed = True
        elif isinstance(event, ErrorReported):
            self._reported_error = True

    @override
    def cut(self) -> None:
        """Nothing to do: no answer is too long to be passed on."""

    @override
    def answer(self, call_id: str, finish: Finished) -> Answer:
        if not self.said:
            self._begin()
        return Answer(call_id, finish.reason)

    def show_opening(self) -> bool:
        """Pass on the opening events, if the provider has sent any; the rest stays held."""
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

    def show_failure(self) -> None:
        """Pass on what the provider said about its failure, as it said it."""
        if not self.said:
            self._begin()

    def _begin(self) -> None:
        self.said = True
        self._before_first()
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


def wire_request(target: Target, path: str, *, body: bytes, along: SentAlong) -> WireRequest:
    """The POST that passes a body on; the target's own headers and key win over the client's."""
    base = urlsplit(target.base_url)
    base_path = base.path.rstrip("/")
    if target.wire == "anthropic":
        auth = {"x-api-key": target.api_key} if target.api_key else {}
        auth = {"anthropic-version": API_VERSION} | dict(along.headers) | auth
        path = path if base_path.endswith("/v1") else f"/v1{path}"
    else:
        auth = dict(along.headers) | bearer(target)
    query = "&".join(filter(None, (base.query, along.query)))
    url = urlunsplit((base.scheme, base.netloc, base_path + path, query, ""))
    own = {name.lower(): value for name, value in target.headers.items()}
    common = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
    headers = common | auth | {"via": along.via} | own
    return WireRequest(url=url, headers=headers, body=body, proxy=target.proxy)
