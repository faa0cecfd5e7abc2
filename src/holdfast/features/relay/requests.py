"""A relayed request, for the retry loop: its bytes, the step after a failure, and who receives the answer."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import override

from holdfast.decisions import retry
from holdfast.features.relay.attempts import PassThrough, RelayReceiver
from holdfast.features.relay.lifecycle import RelayParser
from holdfast.features.relay.raw_request import RawRequest
from holdfast.features.relay.response_buffer import ResponseBuffer, own_stream_head
from holdfast.features.relay.translation.receiver import AnswerForm, TranslatingReceiver, encoder_for
from holdfast.interfaces.model import EventSink
from holdfast.messages import ModelRequest
from holdfast.models.adapters import adapter_of
from holdfast.models.anthropic_request import API_VERSION
from holdfast.models.call_request import AskForLess, CallRequest
from holdfast.models.wire import StreamParser, WireRequest, bearer
from holdfast.server.message_content import Attached
from holdfast.targets import Target
from holdfast.values import Failure

# A client's error is the client's business, except for those that a second try can mend.
RETRYABLE_STATUSES = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.CONFLICT,
        HTTPStatus.TOO_EARLY,
        HTTPStatus.TOO_MANY_REQUESTS,
    }
)
CLIENT_ERRORS = range(400, 500)


class Forwarded(msgspec.Struct, frozen=True):
    """Sent to the target with the body: the client's headers and query, and the `Via` header."""

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
        buffer: ResponseBuffer,
        *,
        forwarded: Forwarded,
        wait_ms_max: int,
        translation: Translation | None = None,
    ) -> None:
        self.model = ""
        self.input_tokens = raw.input_tokens
        self.asks_to_reason = raw.asks_to_reason
        self.is_streamed = raw.is_streamed or translation is not None  # a translated answer is streamed here
        self.output_tokens_max = raw.output_tokens_max
        self.answers = 0 if buffer.surface.is_free else raw.answers
        self.wait_ms_max = wait_ms_max
        self.client_streams = raw.is_streamed
        self.around: Callable[[RelayReceiver], RelayReceiver] | None = None  # what also takes the answer
        self.newest: RelayReceiver | None = None  # what takes the answer of the latest attempt
        self._raw = raw
        self.buffer = buffer
        self._forwarded = forwarded
        self._wait_ms_max = wait_ms_max
        self._translation = translation

    @property
    def is_replaceable(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it is only read
        """Whether the client has received no content."""
        return not self.buffer.has_content

    @override
    def unsupported(self, target: Target) -> tuple[()]:
        return ()  # a client of another protocol may have to send them, so its translation drops them

    @override
    def over_window_tokens(self, target: Target) -> int:
        return 0  # its provider decides

    @override
    def decide(self, failure: Failure, history: retry.History) -> retry.Decision:
        has_content = self.buffer.has_content
        return decide_relayed(failure, history, has_content=has_content, wait_ms_max=self._wait_ms_max)

    @override
    async def shorten(self) -> bool:
        raise AssertionError("a relayed request is never changed")

    @override
    def ask_for_less(self, target: Target, decision: AskForLess) -> None:
        raise AssertionError("a relayed request is never changed")

    @override
    async def build(self, target: Target) -> tuple[WireRequest, StreamParser]:
        adapter = adapter_of(target.wire)
        if target.wire == self._raw.wire:
            body = self._raw.with_model(target.model)
            request = wire_request(target, self.buffer.surface.path, body=body, forwarded=self._forwarded)
            own = self.buffer.surface.parser
            return request, RelayParser(adapter.parser()) if own is None else own()
        assert self._translation is not None, "targets on other wires get a translation"
        asked = self._translation.request
        built = adapter.build(asked, target, blobs=self._translation.attached)
        headers = built.headers | {"via": self._forwarded.via}
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
                self.buffer,
                is_streamed=self.client_streams,
                before_first=before_first,
                make_parser=self.buffer.surface.parser or adapter_of(wire).parser,
            )
        assert self._translation is not None, "targets on other wires get a translation"
        encoder = encoder_for(wire, self._translation.asked)
        return TranslatingReceiver(
            self.buffer, encoder, is_streamed=self.client_streams, before_first=before_first
        )

    def commit(self) -> None:
        """Begin the client's response now, with what the latest attempt has brought so far."""
        if self.buffer.head is None and (self.newest is None or not self.newest.show_opening()):
            head = own_stream_head()
            self.buffer.begin(head.status, head.headers)


def decide_relayed(
    failure: Failure, history: retry.History, *, has_content: bool, wait_ms_max: int
) -> retry.Decision:
    """Decide the step after a failed attempt. A wait over `wait_ms_max` is left to the client.

    The request belongs to another program, so it's never shortened, and an empty answer is never continued or
    retried. Once the client has received content, nothing is replaced.
    """
    if has_content:
        return retry.GiveUp("the client has seen a part of the answer")
    if failure.status in CLIENT_ERRORS and failure.status not in RETRYABLE_STATUSES:
        return retry.GiveUp(f"{history.current} rejected the request")
    decision = retry.decide(failure, history)
    match decision:
        case retry.RetryAfter(wait_s=wait_s, why=why) if 1000 * wait_s > wait_ms_max:
            return retry.GiveUp(why)
        case retry.RetryAfter() | retry.Reconnect() | retry.FallBack() | retry.GiveUp():
            return decision
        case _:
            return retry.GiveUp(decision.why)


def wire_request(target: Target, path: str, *, body: bytes, forwarded: Forwarded) -> WireRequest:
    """The POST that passes a body on; the target's own headers and key win over the client's."""
    origin, base_path, base_query = _parts(target.base_url)
    if target.wire == "anthropic":
        auth = {"x-api-key": target.api_key} if target.api_key else {}
        auth = {"anthropic-version": API_VERSION} | dict(forwarded.headers) | auth
        path = path if base_path.endswith("/v1") else f"/v1{path}"
    else:
        auth = dict(forwarded.headers) | bearer(target)
    query = "&".join(filter(None, (base_query, forwarded.query)))
    url = f"{origin}{base_path}{path}?{query}" if query else f"{origin}{base_path}{path}"
    own = {name.lower(): value for name, value in target.headers.items()}
    common = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
    headers = common | auth | {"via": forwarded.via} | own
    return WireRequest(url=url, headers=headers, body=body, proxy=target.proxy)


@lru_cache(maxsize=256)
def _parts(base_url: str) -> tuple[str, str, str]:
    """The origin of a target's address, its path without a slash at the end, and its query."""
    base = urlsplit(base_url)
    return f"{base.scheme}://{base.netloc}", base.path.rstrip("/"), base.query
