"""The proxy that breaks connections on command, in front of a server that remembers what reached it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from fakes.tcp_proxy import TcpProxy
from stream_server import stream_server


@dataclass
class Echo:
    """Answers each line with the same line, and remembers it."""

    lines: list[bytes] = field(default_factory=list[bytes])
    said: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while line := await reader.readline():
                self.lines.append(line)
                self.said.set()
                writer.write(line)
        writer.close()


@dataclass
class Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, line: bytes) -> bytes:
        self.writer.write(line)
        return await self.reader.readline()


@pytest.fixture
async def echo() -> AsyncIterator[tuple[Echo, TcpProxy]]:
    echo = Echo()
    async with stream_server(echo.serve) as port, TcpProxy("127.0.0.1", port) as proxy:
        yield echo, proxy


async def connect(proxy: TcpProxy) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", proxy.port))


async def test_it_forwards_both_ways_also_slowly_and_more_than_one_piece(echo: tuple[Echo, TcpProxy]) -> None:
    _, proxy = echo
    client = await connect(proxy)
    assert await client.ask(b"a\n") == b"a\n"
    proxy.delay_s = 0.01
    assert await client.ask(b"x" * 60_000 + b"\n") == b"x" * 60_000 + b"\n"
    client.writer.close()


async def test_a_cut_resets_what_is_open_and_refuses_what_is_new_until_it_heals(
    echo: tuple[Echo, TcpProxy],
) -> None:
    _, proxy = echo
    client = await connect(proxy)
    await client.ask(b"a\n")
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        await client.reader.readline()
    refused = await connect(proxy)
    with pytest.raises(ConnectionResetError):
        await refused.reader.readline()
    proxy.heal()
    again = await connect(proxy)
    assert await again.ask(b"c\n") == b"c\n"
    for one in (client, refused, again):
        one.writer.close()


async def test_a_statement_is_delivered_and_its_reply_cut_off(echo: tuple[Echo, TcpProxy]) -> None:
    server, proxy = echo
    client = await connect(proxy)
    await client.ask(b"first\n")
    proxy.cut_reply(after=lambda data: b"INSERT" in data)
    assert await client.ask(b"select\n") == b"select\n"
    with pytest.raises(ConnectionResetError):
        await client.ask(b"INSERT\n")
    await proxy.cuts.acquire()
    assert server.lines == [b"first\n", b"select\n", b"INSERT\n"]
    again = await connect(proxy)
    assert await again.ask(b"INSERT\n") == b"INSERT\n"
    for one in (client, again):
        one.writer.close()


async def test_what_a_black_hole_holds_arrives_after_its_client_has_connected_anew(
    echo: tuple[Echo, TcpProxy],
) -> None:
    server, proxy = echo
    client = await connect(proxy)
    await client.ask(b"first\n")
    proxy.black_hole("to_server")
    client.writer.write(b"late\n")
    await proxy.holds.wait()
    proxy.strand()
    with pytest.raises(ConnectionResetError):
        await client.reader.readline()
    assert server.lines == [b"first\n"]
    again = await connect(proxy)
    server.said.clear()
    proxy.heal()
    await server.said.wait()
    assert await again.ask(b"new\n") == b"new\n"
    assert sorted(server.lines) == [b"first\n", b"late\n", b"new\n"]
    for one in (client, again):
        one.writer.close()


async def test_a_one_way_cut_takes_statements_and_gives_no_replies(echo: tuple[Echo, TcpProxy]) -> None:
    server, proxy = echo
    client = await connect(proxy)
    await client.ask(b"first\n")
    proxy.black_hole("to_client")
    server.said.clear()
    asking = asyncio.create_task(client.ask(b"second\n"))
    await server.said.wait()
    assert not asking.done()
    proxy.heal()
    assert await asking == b"second\n"
    client.writer.close()
