"""The body of an answer is taken as it comes: nothing lost, nothing twice, nothing after a cancel."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import aiohttp
import pytest

from holdfast.chaos import Gate
from holdfast.decisions.deadlines import RequestFacts, effective
from holdfast.models.body import Body, Take
from holdfast.models.connection_errors import ConnectionBroken
from holdfast.models.http import ModelHttp
from holdfast.models.watchdog import Watchdog
from holdfast.models.wire import WireRequest
from holdfast.targets import Patience
from stream_server import stream_server
from tables import for_each_row

from .calling import HANGS_S

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
BIG = 3 * 1024 * 1024


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Server:
    """Answers each request with the same writes; before each it waits for one more turn of the gate."""

    def __init__(self, writes: Sequence[bytes], gates: Sequence[Gate]) -> None:
        self._writes = writes
        self._gates = gates
        self.connections = 0
        self.closed = Gate()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer until the client leaves."""
        self.connections += 1
        try:
            while await reader.readline():
                await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(2)
                for write, gate in zip(self._writes, self._gates, strict=True):
                    await gate.passed()
                    writer.write(write)
                    await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # it left in the middle
        finally:
            writer.close()
            self.closed.open()


@asynccontextmanager
async def serving(*writes: bytes, gates: Sequence[Gate] = ()) -> AsyncGenerator[tuple[Server, WireRequest]]:
    """A server with these writes; without gates it makes them at once."""
    opened = [Gate() for _ in writes]
    for gate in opened:
        gate.open()
    here = Server(writes, gates or opened)
    async with stream_server(here.answer) as port:
        yield here, WireRequest(url=f"http://127.0.0.1:{port}/", headers={}, body=b"{}")


@asynccontextmanager
async def body_of(http: ModelHttp, request: WireRequest) -> AsyncGenerator[Body]:
    """The body of one answer."""
    deadlines = effective(Patience(), RequestFacts(local=True, input_tokens=1))
    watchdog = Watchdog(deadlines)
    async with asyncio.timeout(HANGS_S), watchdog, http.post(request, watchdog) as reply:
        yield reply.body


async def read(http: ModelHttp, request: WireRequest, take: Take) -> bool:
    """One answer, taken until it ends or is enough."""
    async with body_of(http, request) as body:
        return await body.each(take)


class Taken:
    """Takes pieces, and has enough after each that ends in one of these."""

    def __init__(self, *enough: bytes) -> None:
        self.pieces: list[bytes] = []
        self.tasks: list[object] = []
        self._enough = enough
        self.first = Gate()

    def __call__(self, piece: bytes) -> bool:
        self.pieces.append(piece)
        self.tasks.append(asyncio.current_task())
        self.first.open()
        return bool(self._enough) and piece.endswith(self._enough)

    @property
    def whole(self) -> bytes:
        return b"".join(self.pieces)


async def test_the_body_is_whole_wherever_the_packets_are_cut() -> None:
    text = bytes(range(256)) * 3
    raw = CHUNKED + b"".join(chunk(text[at : at + 100]) for at in range(0, len(text), 100)) + LAST
    async with ModelHttp() as http:
        for step in (1, 7, 101, len(raw)):
            cut = [raw[start:end] for start, end in pairwise([*range(0, len(raw), step), len(raw)])]
            async with serving(*cut) as (_, request), body_of(http, request) as body:
                taken = Taken()
                assert await body.each(taken) is False
                assert taken.whole == text


@for_each_row(
    "raw",
    [
        CHUNKED + chunk(b"one") + chunk(b"two") + LAST,
        HEAD + b"content-length: 6\r\n\r\nonetwo",
        CHUNKED + b"3;note=x\r\none\r\n" + chunk(b"two") + b"0\r\ntrailer: x\r\n\r\n",
    ],
)
async def test_a_body_that_came_with_its_head_is_whole_and_its_connection_is_kept(raw: bytes) -> None:
    async with ModelHttp() as http, serving(raw) as (server, request):
        for _ in range(3):
            async with body_of(http, request) as body:
                taken = Taken()
                assert await body.each(taken) is False
                assert taken.whole == b"onetwo"
        assert server.connections == 1


async def test_what_comes_later_is_taken_without_waking_the_task() -> None:
    gates = [Gate() for _ in range(4)]
    writes = (CHUNKED, chunk(b"one"), chunk(b"two"), LAST)
    async with ModelHttp() as http, serving(*writes, gates=gates) as (server, request):
        gates[0].open()
        taken = Taken()
        async with body_of(http, request) as body:
            reading = asyncio.ensure_future(body.each(taken))
            gates[1].open()
            await taken.first.passed()
            gates[2].open()
            gates[3].open()
            assert await reading is False
        assert taken.whole == b"onetwo"
        assert set(taken.tasks) == {None}
        async with body_of(http, request) as body:
            assert await body.each(Taken()) is False
        assert server.connections == 1


async def test_whoever_has_enough_for_now_misses_nothing() -> None:
    """P10: what nobody takes yet stays with the peer, past a bound."""
    large = b"x" * BIG + b"."
    writes = (CHUNKED, chunk(b"one."), chunk(large), chunk(b"three."), LAST)
    async with ModelHttp() as http, serving(*writes) as (_, request), body_of(http, request) as body:
        taken = Taken(b".")
        rounds = 0
        while await body.each(taken):
            rounds += 1
        assert taken.whole == b"one." + large + b"three."
        assert rounds >= 1


async def test_what_the_taker_raises_is_raised_where_it_is_awaited() -> None:
    def refuse(piece: bytes) -> bool:
        raise ValueError(piece)

    gates = [Gate(), Gate()]
    async with ModelHttp() as http, serving(CHUNKED, chunk(b"one"), gates=gates) as (server, request):
        gates[0].open()
        gates[1].open()
        with pytest.raises(ValueError, match="one"):
            await read(http, request, refuse)
        await server.closed.passed()


@asynccontextmanager
async def by_hand() -> AsyncGenerator[tuple[Body, asyncio.Transport]]:
    """A body that has begun, and the transport whose packets a test brings itself."""
    gates = [Gate(), Gate()]
    gates[0].open()
    async with (
        serving(CHUNKED, LAST, gates=gates) as (_, request),
        aiohttp.ClientSession() as session,
        session.post(request.url, data=request.body) as response,
    ):
        assert response.connection is not None
        transport = response.connection.transport
        assert transport is not None
        yield Body(response), transport


def arrives(transport: asyncio.Transport, data: bytes) -> None:
    """A packet, as the event loop would hand it over."""
    protocol = transport.get_protocol()
    assert isinstance(protocol, asyncio.Protocol)
    protocol.data_received(data)


async def test_a_cancelled_task_takes_nothing_more() -> None:
    """P5: bytes that arrive between the cancel and the end of the task are not heard."""
    async with by_hand() as (body, transport):
        taken = Taken()
        reading = asyncio.ensure_future(body.each(taken))
        await asyncio.sleep(0)
        arrives(transport, chunk(b"one"))
        reading.cancel()
        arrives(transport, chunk(b"two"))
        await asyncio.wait([reading])
        assert reading.cancelled()
        assert taken.pieces == [b"one"]


async def test_what_the_client_held_back_is_taken_too() -> None:
    """P3: of more than the client holds at once, nothing waits for a packet that never comes."""
    async with by_hand() as (body, transport):
        taken = Taken()
        reading = asyncio.ensure_future(body.each(taken))
        await asyncio.sleep(0)
        large = b"x" * BIG
        arrives(transport, 3 * chunk(large) + LAST)
        async with asyncio.timeout(HANGS_S):
            assert await reading is False
        assert taken.whole == 3 * large


async def test_a_connection_that_is_given_back_has_its_own_protocol_again() -> None:
    async with by_hand() as (body, transport):
        before = transport.get_protocol()
        reading = asyncio.ensure_future(body.each(Taken()))
        await asyncio.sleep(0)
        assert transport.get_protocol() is not before
        arrives(transport, chunk(b"one") + LAST)
        assert transport.get_protocol() is before
        assert await reading is False


@for_each_row("end", [b"", b"5\r\nhal", b"nonsense\r\n"])
async def test_a_body_that_breaks_off_is_broken(end: bytes) -> None:
    """P4."""
    gate, taken = Gate(), Taken()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED + chunk(b"one"))
        await gate.passed()
        writer.write(end)
        writer.close()

    async with ModelHttp() as http, stream_server(answer) as port:
        request = WireRequest(url=f"http://127.0.0.1:{port}/", headers={}, body=b"{}")
        reading = asyncio.ensure_future(read(http, request, taken))
        await taken.first.passed()
        gate.open()
        with pytest.raises(ConnectionBroken):
            await reading
    assert taken.pieces[0] == b"one"


async def test_connections_that_are_closed_under_a_body_break_it() -> None:
    """P3: nobody waits for a connection that we closed ourselves."""
    gates, taken = [Gate(), Gate(), Gate()], Taken()
    gates[0].open()
    gates[1].open()
    async with serving(CHUNKED, chunk(b"one"), LAST, gates=gates) as (_, request):
        async with ModelHttp() as http:
            reading = asyncio.ensure_future(read(http, request, taken))
            await taken.first.passed()
        with pytest.raises(ConnectionBroken):
            await reading
    assert taken.whole == b"one"
