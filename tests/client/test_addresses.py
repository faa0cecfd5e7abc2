"""What the client says when there is no Holdfast where it looks, or something else."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.chaos import ChaosServer
from holdfast.client import (
    Address,
    Away,
    Back,
    BadAnswer,
    Client,
    ClientPatience,
    Heard,
    Refused,
    Unreachable,
)
from holdfast.server.options import ApiKey, ServerOptions
from serving import Setting, served, target_of
from stream_server import stream_server
from tables import for_each_row

IMPATIENT = ClientPatience(first_s=0.01, call_s=0.0, follow_s=0.0)
SECRET = "sk-secret-of-a-server"  # noqa: S105  # the key of a server that lives for a test


@asynccontextmanager
async def answering(*answers: bytes, socket: str = "") -> AsyncGenerator[str]:
    """Something at an address that answers requests with these bytes, the last again, and hangs up."""
    left = list(answers)

    async def answer_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        writer.close()
        await writer.wait_closed()

    async with stream_server(answer_one, path=socket) as port:
        yield "http://localhost" if socket else f"http://127.0.0.1:{port}"


async def test_where_nobody_is_it_says_where_it_looked_and_why_that_was_for_nothing() -> None:
    """P12: the address is what one has to look at."""
    async with answering(b"") as url:
        pass
    for patience in (IMPATIENT, ClientPatience(first_s=0.01, call_s=0.05)):
        async with Client(url, patience=patience) as client:
            with pytest.raises(Unreachable, match=f"{url} .Connection refused.$"):
                await client.health()


@for_each_row("url", ["127.0.0.1:8642", "localhost", "", "ftp://127.0.0.1"])
async def test_an_address_that_is_none_is_said_to_be_at_once(url: str) -> None:
    """P3: nobody waits for what cannot come."""
    async with Client(url, patience=ClientPatience(call_s=3600.0)) as client:
        with pytest.raises(Unreachable, match="must begin with http:// or https://"):
            await client.health()


async def test_a_proxy_that_misses_its_server_is_waited_out_by_streams_too() -> None:
    """P7: behind one, a restart is 502 and no refused connection."""
    bad_gateway = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno!"
    async with answering(bad_gateway) as url, Client(url, patience=IMPATIENT) as client:
        stream = client.watch("run_x")
        assert isinstance(await anext(stream), Away)
        with pytest.raises(Unreachable, match=url):
            await anext(stream)


async def test_a_page_in_the_place_of_a_stream_is_no_stream() -> None:
    """P3: a sign-in page of a proxy is not asked for for ever."""
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\nConnection: close\r\n\r\n<p>"
    async with answering(page) as url, Client(url) as client:
        with pytest.raises(BadAnswer, match="wasn't answered by a Holdfast server"):
            await anext(client.watch("run_x"))


async def test_a_proxy_that_opens_streams_and_closes_them_empty_is_given_up() -> None:
    """P3: an open connection is no sign of a server; something has to come, or it has to last."""
    empty = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    patience = ClientPatience(first_s=0.01, most_s=60.0, follow_s=0.0)
    heard: list[Heard] = []
    async with answering(empty) as url, Client(url, patience=patience) as client:
        with pytest.raises(Unreachable, match=url):
            await until(client.watch("run_x"), heard=heard, count=10)
    assert heard == [Away("the stream ended", 1), Back()]


async def until(following: AsyncIterator[Heard], *, heard: list[Heard], count: int) -> None:
    async for one in following:
        heard.append(one)
        if len(heard) == count:
            return


async def test_a_server_that_moves_to_a_socket_and_back_is_found_each_time(tmp_path: Path) -> None:
    """P7: a connection of the one kind does not lead to the other."""
    body = b'{"status": "ok", "version": "1", "platform": "holdfast"}'
    healthy = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body)
    places: list[Address] = []

    async def where() -> Address:
        return places[-1]

    async with Client(where=where, patience=ClientPatience(first_s=0.01)) as client:
        for socket in ("", str(tmp_path / "socket"), ""):
            async with answering(healthy, socket=socket) as url:
                places.append(Address(url, socket=socket))
                assert (await client.health()).status == "ok"


async def test_half_a_character_is_refused_before_it_is_sent_and_a_key_may_end_with_its_line() -> None:
    """P12: a terminal can hand over bytes that are no text."""
    setting = Setting(options=ServerOptions(keys=(ApiKey("me", SECRET),)))
    async with (
        ChaosServer() as chaos,
        served(target_of(chaos), setting=setting) as server,
        Client(server.url, SECRET + "\n") as client,
    ):
        with pytest.raises(Refused, match="half a character"):
            await client.start("\udcff")
        with pytest.raises(Refused, match="not found"):
            await client.session("\udcff")
        assert (await client.runs()).data == ()


async def test_a_new_name_is_sent_again_when_its_answer_was_lost() -> None:
    """P2: the same name twice is the same name."""
    texts = dict.fromkeys(("epoch", "source", "workspace", "preview"), "")
    numbers = dict.fromkeys(("created_at", "started_at", "updated_at", "last_active", "message_count"), 0)
    counts = dict.fromkeys(("open_runs", "open_asks", "begun_runs", "read_seq"), 0)
    flags = dict.fromkeys(("pinned", "archived", "unread"), False)
    shown = {"id": "s", "session_id": "s", "title": "t", **texts, **numbers, **counts, **flags}
    body = json.dumps(shown).encode()
    named = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body)
    patience = ClientPatience(first_s=0.01)
    async with answering(b"", named) as url, Client(url, patience=patience) as client:
        assert (await client.rename("s", "t")).title == "t"


async def test_where_nobody_speaks_tls_it_says_so() -> None:
    """P12: the number of an error of TLS is none of the system's."""
    async with (
        ChaosServer() as chaos,
        served(target_of(chaos)) as server,
        Client(server.url.replace("http:", "https:"), patience=IMPATIENT) as client,
    ):
        with pytest.raises(Unreachable, match="SSL"):
            await client.health()
