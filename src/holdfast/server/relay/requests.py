"""A relayed request as the retry loop sees it: the client's bytes, and the answer's on their way back."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import override

from holdfast.decisions import retry
from holdfast.decisions.relayed import decide_relayed
from holdfast.interfaces.model import EventSink
from holdfast.messages import ModelRequest
from holdfast.models.adapters import ADAPTERS
from holdfast.models.anthropic_request import API_VERSION
from holdfast.models.call_request import AskForLess, CallRequest
from holdfast.models.wire import StreamParser, WireRequest, bearer
from holdfast.server.contents import Attached
from holdfast.server.relay.attempts import PassThrough, RelayReceiver
from holdfast.server.relay.lifecycle import RelayParser
from holdfast.server.relay.output import RelayOutput, own_stream_head
from holdfast.server.relay.raw_request import RawRequest
from holdfast.server.relay.translation.receiver import AnswerForm, TranslatingReceiver, encoder_for
from holdfast.targets import Target
from holdfast.values import Failure


class SentAlong(msgspec.Struct, frozen=True):
    """Sent with the body: forwarded headers, the query, and the `Via` header."""

    headers: Mapping[str, str]
    query: str
    via: str


class Translation(Struct, frozen=True):
    """The request in our form, with its files, for targets that speak another wire."""

    request: ModelRequest
    attached: Attached
    asked: AnswerForm


class RelayedRequest(CallRequest):
    """A client's request: its bytes for a target on the same wire, and a translation for any other."""

    waits_at_gates = True

    def __init__(
        self,
        raw: RawRequest,
        output: RelayOutput,
        *,
        along: SentAlong,
        wait_ms_max: int,
        translation: Translation | None = None,
    ) -> None:
        self.model = ""
        self.input_tokens = raw.input_tokens
        self.asks_to_reason = raw.asks_to_reason
        self.is_streamed = raw.is_streamed or translation is not None  # a translated answer is streamed here
        self.output_tokens_max = raw.output_tokens_max
        self.answers = 0 if output.surface.is_free else raw.answers
        self.wait_ms_max = wait_ms_max
        self.client_streams = raw.is_streamed
        self.around: Callable[[RelayReceiver], RelayReceiver] | None = None  # what also takes the answer
        self.newest: RelayReceiver | None = None  # what takes the answer of the latest attempt
        self._raw = raw
        self.output = output
        self._along = along
        self._wait_ms_max = wait_ms_max
        self._translation = translation

    @override
    def over_window_tokens(self, target: Target) -> int:
        return 0  # its provider decides

    @override
    def decide(self, failure: Failure, history: retry.History) -> retry.Decision:
        has_content = self.output.has_content
        return decide_relayed(failure, history, has_content=has_content, wait_ms_max=self._wait_ms_max)

    @override
    async def shorten(self) -> bool:
        raise AssertionError("a relayed request is never changed")

    @override
    def ask_for_less(self, target: Target, decision: AskForLess) -> None:
        raise AssertionError("a relayed request is never changed")

    @override
    async def build(self, target: Target) -> tuple[WireRequest, StreamParser]:
        adapter = ADAPTERS[target.wire]
        if target.wire == self._raw.wire:
            body = self._raw.with_model(target.model)
            request = wire_request(target, self.output.surface.path, body=body, along=self._along)
            own = self.output.surface.parser
            return request, RelayParser(adapter.parser()) if own is None else own()
        assert self._translation is not None, "targets on other wires get a translation"
        asked = self._translation.request
        built = adapter.build(asked, target, blobs=self._translation.attached)
        headers = built.headers | {"via": self._along.via}
        return replace(built, headers=headers), adapter.parser_of(asked, target)

    @override
    def receiver(self, sink: EventSink, target: Target, *, before_first: Callable[[], None]) -> RelayReceiver:
        newest = self._receiver(target, before_first=before_first)
        self.newest = newest if self.around is None else self.around(newest)
        return self.newest

    def _receiver(self, target: Target, *, before_first: Callable[[], None]) -> RelayReceiver:
        wire = self._raw.wire
        if target.wire == wire:
            return PassThrough(
                self.output,
                is_streamed=self.client_streams,
                before_first=before_first,
                make_parser=self.output.surface.parser or ADAPTERS[wire].parser,
            )
        assert self._translation is not None, "targets on other wires get a translation"
        encoder = encoder_for(wire, self._translation.asked)
        return TranslatingReceiver(
            self.output, encoder, is_streamed=self.client_streams, before_first=before_first
        )

    def commit(self) -> None:
        """Begin the client's response now, with what the latest attempt has brought so far."""
        if self.output.head is None and (self.newest is None or not self.newest.show_opening()):
            head = own_stream_head()
            self.output.begin(head.status, head.headers)


def wire_request(target: Target, path: str, *, body: bytes, along: SentAlong) -> WireRequest:
    """The POST that passes a body on; the target's own headers and key win over the client's."""
    origin, base_path, base_query = _parts(target.base_url)
    if target.wire == "anthropic":
        auth = {"x-api-key": target.api_key} if target.api_key else {}
        auth = {"anthropic-version": API_VERSION} | dict(along.headers) | auth
        path = path if base_path.endswith("/v1") else f"/v1{path}"
    else:
        auth = dict(along.headers) | bearer(target)
    query = "&".join(filter(None, (base_query, along.query)))
    url = f"{origin}{base_path}{path}?{query}" if query else f"{origin}{base_path}{path}"
    own = {name.lower(): value for name, value in target.headers.items()}
    common = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
    headers = common | auth | {"via": along.via} | own
    return WireRequest(url=url, headers=headers, body=body, proxy=target.proxy)


@lru_cache(maxsize=256)
def _parts(base_url: str) -> tuple[str, str, str]:
    """The origin of a target's address, its path without a slash at the end, and its query."""
    base = urlsplit(base_url)
    return f"{base.scheme}://{base.netloc}", base.path.rstrip("/"), base.query
