"""Holdfast's deadlines for other packages: a transport for httpx2, which openai and others use.

`client` makes the client to hand to a package. Bytes pass unchanged; nothing is retried or learned here: a
package retries by itself what is raised before it has the response, and its user sees what is raised later.
"""

import math
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self, TypedDict, Unpack

import httpx2
import msgspec
from msgspec.structs import replace

from holdfast.decisions.deadlines import Deadlines, Limit, RequestFacts, State, effective, is_local
from holdfast.decisions.failure_rules import Stage
from holdfast.guard.errors import (
    Dropped,
    GuardError,
    NoFirstEvent,
    NotConnected,
    Reset,
    Stalled,
    UploadReset,
    UploadStalled,
    broken,
    cause_of,
    dropped,
    killed,
)
from holdfast.guard.listening import Listener, listener_for
from holdfast.guard.waits import DeadlinePassed, DeadlineWatch, WatchedUpload
from holdfast.messages import CHARS_PER_TOKEN
from holdfast.targets import Patience

__all__ = [
    "Dropped",
    "GuardError",
    "GuardTransport",
    "NoFirstEvent",
    "NotConnected",
    "Reset",
    "Rules",
    "Stalled",
    "UploadReset",
    "UploadStalled",
    "cause_of",
    "client",
]

CONNECTIONS_MAX = 1000
KEPT_ALIVE_MAX = 100
HELD_BYTES_MAX = 1024 * 1024
SWITCHING_PROTOCOLS = 101

_STAGES: dict[State, Stage] = {
    State.CONNECTING: "connecting",
    State.UPLOADING: "uploading",
    State.WAITING: "waiting",
}


class Rules(TypedDict, total=False):
    """The settings: seconds of silence, where None is the default and 0 switches a watchdog off.

    `unstreamed_s` limits the wait for an answer that isn't streamed, which comes when all of it is written.
    `tail_s` limits the wait for the end of a stream whose terminal marker has come.
    """

    connect_s: float | None
    upload_s: float | None
    first_event_s: float | None
    first_event_cap_s: float | None
    first_progress_s: float | None
    gap_s: float | None
    tail_s: float | None
    unstreamed_s: float | None
    strict: bool
    await_first_event: bool
    require_terminal_marker: bool


class _Settings(Patience, frozen=True, kw_only=True):
    """The rules with their defaults."""

    tail_s: float | None = None
    unstreamed_s: float | None = None
    await_first_event: bool = True
    require_terminal_marker: bool = True

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value: object = getattr(self, name)
            if name.endswith("_s") and not (value is None or _is_length(value)):
                raise ValueError(f"{name} must be a number of seconds, or 0 for off, not {value!r}")


def _is_length(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


def client(inner: httpx2.AsyncBaseTransport | None = None, **rules: Unpack[Rules]) -> httpx2.AsyncClient:
    """A client under the guard's deadlines alone: httpx2's own are off.

    It follows redirects, as the packages' own clients do. Without an `inner` transport it goes straight to
    the network, past any proxy that the environment names.
    """
    guarded = GuardTransport(inner, **rules)
    return httpx2.AsyncClient(transport=guarded, timeout=None, follow_redirects=True)


class GuardTransport(httpx2.AsyncBaseTransport):
    """Sends through another transport, and ends what is silent for too long.

    Raises GuardError besides what the other transport raises. Closing it closes the other.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport | None = None, **rules: Unpack[Rules]) -> None:
        self._settings = _Settings(**rules)
        limits = httpx2.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=KEPT_ALIVE_MAX)
        self._inner = inner or httpx2.AsyncHTTPTransport(limits=limits)

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._inner.__aexit__(exc_type, exc_value, traceback)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request; the stream of the response is guarded as well."""
        assert isinstance(request.stream, httpx2.AsyncByteStream), "an async client sends async bodies"
        upload = WatchedUpload(request.stream, _deadlines(request, self._settings))
        try:
            response = await upload.watch.wait(self._inner.handle_async_request(_sent(request, upload)))
        except DeadlinePassed as passed:
            raise _killed(passed, request) from None
        except httpx2.TransportError as error:
            if (why := broken(error, _stage(upload.watch), url=request.url)) is None:
                raise
            raise why from error
        finally:
            upload.end()
        if response.status_code == SWITCHING_PROTOCOLS:
            return response
        assert isinstance(response.stream, httpx2.AsyncByteStream), (
            "an async transport answers with async bodies"
        )
        listener = listener_for(request, response)
        stream = _GuardedStream(
            response.stream,
            listener,
            watch=upload.watch,
            request=request,
            requires_marker=self._settings.require_terminal_marker,
        )
        if self._settings.await_first_event and listener.expects_marker:
            await stream.begin()
        response.stream = stream
        return response


class _GuardedStream(httpx2.AsyncByteStream):
    """The body of a response: passes on every piece as it comes, and watches it."""

    def __init__(
        self,
        inner: httpx2.AsyncByteStream,
        listener: Listener,
        *,
        watch: DeadlineWatch,
        request: httpx2.Request,
        requires_marker: bool,
    ) -> None:
        self._inner = inner
        self._requires_marker = requires_marker
        self._listener = listener
        self._watch = watch
        self._request = request
        self._pieces = aiter(inner)
        self._held: deque[bytes] = deque()
        self._reading = False
        self._ended = False

    async def begin(self) -> None:
        """Read up to the first event: a package that has no response yet can still retry by itself."""
        held_bytes = 0
        try:
            while self._watch.state in _STAGES and held_bytes < HELD_BYTES_MAX:
                piece = await self._next()
                if piece is None:
                    return
                self._held.append(piece)
                held_bytes += len(piece)
        except BaseException:
            await self.aclose()
            raise

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while self._held:
                yield self._held.popleft()
            while (piece := await self._next()) is not None:
                yield piece
        finally:
            await self._end_pieces()

    async def aclose(self) -> None:
        """Close the connection, unless the whole answer has been read."""
        self._ended = True
        try:
            await self._end_pieces()
        finally:
            await self._inner.aclose()

    async def _next(self) -> bytes | None:
        """The next piece, or None at a good end."""
        if self._ended:
            return None
        try:
            piece = await self._watch.wait(self._read())
        except DeadlinePassed as passed:
            await self.aclose()
            if self._listener.complete:
                return None
            raise _killed(passed, self._request) from None
        except httpx2.TransportError as error:
            await self.aclose()
            # If the protocol has said that the answer is complete, it doesn't matter how the connection ends.
            if self._listener.complete:
                return None
            if (why := broken(error, _stage(self._watch), url=self._request.url)) is None:
                raise
            raise why from error
        if piece is None:
            await self._check_end()
        else:
            for sign in self._listener.feed(piece):
                self._watch.sign(sign)
        return piece

    async def _read(self) -> bytes | None:
        self._reading = True
        try:
            return await anext(self._pieces)
        except StopAsyncIteration:
            return None
        finally:
            self._reading = False

    async def _check_end(self) -> None:
        self._ended = True
        self._listener.end()
        if self._requires_marker and self._listener.expects_marker:
            await self.aclose()
            raise dropped(self._request.url)

    async def _end_pieces(self) -> None:
        """Close the generator of a reader that stops early."""
        close = getattr(self._pieces, "aclose", None)
        if close is not None and not self._reading:
            await close()


class _Body(msgspec.Struct):
    """A request's body, on any wire."""

    stream: bool | None = None
    thinking: msgspec.Raw = msgspec.Raw()
    reasoning: msgspec.Raw = msgspec.Raw()
    reasoning_effort: msgspec.Raw = msgspec.Raw()

    @property
    def asks_to_reason(self) -> bool:
        """Whether to expect long silent thinking."""
        said = [bytes(raw) for raw in (self.thinking, self.reasoning, self.reasoning_effort)]
        return any(
            raw and raw != b"null" and b'"none"' not in raw and b'"disabled"' not in raw for raw in said
        )


_BODY = msgspec.json.Decoder(_Body)


def _body(request: httpx2.Request) -> _Body:
    try:
        return _BODY.decode(request.content)
    except (httpx2.RequestNotRead, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Body()  # not JSON, or not in memory: use the longer patience


def _deadlines(request: httpx2.Request, settings: _Settings) -> Deadlines:
    body = _body(request)
    length = request.headers.get("content-length", "")
    asked = RequestFacts(
        local=is_local(request.url.host),
        input_tokens=int(length) // CHARS_PER_TOKEN if length.isdecimal() else 0,
        reasoning=body.asks_to_reason,
    )
    deadlines = effective(settings, asked)
    if settings.tail_s is not None:
        deadlines = replace(deadlines, tail=Limit("tail", settings.tail_s, "configured"))
    return deadlines if body.stream else replace(deadlines, first_event=_unstreamed(settings, asked))


def _unstreamed(settings: _Settings, asked: RequestFacts) -> Limit:
    """Nothing arrives before the whole answer is written, so use the patience for silent thinking."""
    if settings.unstreamed_s is not None:
        return Limit("first_event", settings.unstreamed_s, "configured")
    thinking = effective(replace(settings, gap_s=None), asked).first_progress
    return Limit("first_event", thinking.patience_s, thinking.why)


def _sent(request: httpx2.Request, upload: WatchedUpload) -> httpx2.Request:
    """The request with its body watched; the caller's request is unchanged, for redirects and retries."""
    return httpx2.Request(
        request.method,
        request.url,
        headers=request.headers,
        stream=upload,
        extensions=upload.traced(request.extensions),
    )


def _stage(watch: DeadlineWatch) -> Stage:
    return _STAGES.get(watch.state, "streaming")


def _killed(passed: DeadlinePassed, request: httpx2.Request) -> GuardError:
    return killed(passed.deadline, _STAGES.get(passed.state, "streaming"), url=request.url)
