"""Connections as strange clients make them: other protocols asked for, floods, idlers, who never reads."""

import asyncio
import gzip
import io
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest

from holdfast.chaos import ChaosServer, Hang, Say
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.server.options import ApiKey, Limits, ServerOptions
from moved_loop import on_moved_loop, time_passes
from server.transport.raw_http import HEAD, HEALTH, answers, connected
from serving import PATIENT, Served, Setting, served, target_of
from stores import MemoryStore
from tables import for_each_row

LIMITS = Limits()
UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
SLOWLY_BYTES = 1_000_000  # less than what the system takes at once, so that the server sees nothing go


def posted(body: bytes, *headers: bytes) -> bytes:
    head = b"POST /v1/runs HTTP/1.1\r\n" + HEAD + b"".join(headers)
    return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


@for_each_row("cut", [0, 30, 150, -4])
async def test_who_would_rather_speak_http_2_is_served_whole_and_so_is_what_follows(cut: int) -> None:
    """P2, P12: Java's own client asks so with its first request; the body must not be lost by it."""
    disk = MemoryDisk()
    sent = posted(b'{"input": "hi", "session_id": "s"}', UPGRADE) + HEALTH
    async with (
        ChaosServer([Say("x")]) as chaos,
        served(target_of(chaos), store=MemoryStore(disk)) as server,
    ):
        first, second = await answers(server, sent[:cut], sent[cut:])
    assert first.startswith(b"202"), first
    assert second.startswith(b"200"), second
    assert list(disk.logs) == ["s"]


async def test_a_tunnel_to_elsewhere_is_no_request() -> None:
    """P12: it is answered, and nothing is passed on."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        for target in (b"elsewhere.example:443", b"localhost:1", b"/health"):
            (answer,) = await answers(server, b"CONNECT %b HTTP/1.1\r\n%b\r\n" % (target, HEAD))
            assert answer.startswith(b"400"), answer


async def test_a_whole_url_names_the_host_that_the_header_does() -> None:
    """P11: the header is what is checked, so nothing else may name another host."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        host = HEAD.partition(b"Host: ")[2].partition(b"\r\n")[0]
        for named, status in ((host, b"200"), (b"elsewhere.example", b"400"), (b"u@" + host, b"400")):
            sent = b"GET http://%b/health HTTP/1.1\r\n%bConnection: close\r\n\r\n" % (named, HEAD)
            (answer,) = await answers(server, sent)
            assert answer.startswith(status), answer


@for_each_row("endless", [b"0\r\nX-Trailer: ", b"0\r\nX-", b"5;x=", b"5\r\nhello\r\n0\r\nX: "])
async def test_what_follows_a_body_without_end_is_cut_off(endless: bytes) -> None:
    """P10, P11: without a key, one connection gathers nothing and holds up nobody."""
    head = b"POST /v1/nowhere HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n" % HEAD
    async with (
        ChaosServer() as chaos,
        served(target_of(chaos)) as server,
        connected(server) as (_, writer),
    ):
        writer.write(head + endless)
        sent = 0
        with suppress(ConnectionError):
            while sent < 20_000_000:  # far more than the buffers on the way hold
                writer.write(b"a" * 100_000)
                await writer.drain()
                sent += 100_000
        assert sent < 20_000_000
        assert (await server.get("/health"))[0] == 200


async def test_a_header_behind_the_body_is_none() -> None:
    """P11: what a proxy in front never looked at decides nothing."""
    sent = b"POST /api/sessions HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" % HEAD
    sent += b"2\r\n{}\r\n0\r\nIdempotency-Key: k\r\n\r\n"
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        made = [await answers(server, sent) for _ in range(2)]
        assert all(answer.startswith(b"201") for (answer,) in made)
        assert len((await server.get("/api/sessions"))[1]["data"]) == 2


async def test_garbage_behind_a_request_does_not_take_the_place_of_its_answer() -> None:
    """P2, P12: the run that was accepted is said to be, and then the connection ends."""
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos)) as server:
        sent = posted(b'{"input": "hi"}') + b"\x00garbage\r\n\r\n"
        (answer,) = await answers(server, sent)
        assert answer.startswith(b"202"), answer
        (answer,) = await answers(
            server, b"GET /health HTTP/1.1\r\n" + HEAD + b"\r\n" + b"GET /" + b"a" * 70_000
        )
        assert answer.startswith(b"200"), answer


@pytest.mark.parametrize("said", [b"\r\n", b"\r\n" * 100])
@on_moved_loop
async def test_who_says_nothing_after_an_answer_is_not_kept(said: bytes) -> None:
    """P10: empty lines are no request, so they do not hold the connection either."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        head = b"GET /health HTTP/1.1\r\n" + HEAD + b"\r\n"
        async with connected(server) as (reader, writer):
            writer.write(head)
            await reader.readuntil(b"}")
            writer.write(said)
            await time_passes(LIMITS.keep_alive_s / 2)
            assert not reader.at_eof()
            await time_passes(LIMITS.keep_alive_s / 2)
            assert await reader.read() == b""


@on_moved_loop
async def test_a_body_that_ends_after_its_answer_does_not_keep_the_connection() -> None:
    """P10: the answer needed no body; then nothing more is asked."""
    async with (
        ChaosServer() as chaos,
        served(target_of(chaos)) as server,
        connected(server) as (reader, writer),
    ):
        writer.write(b"POST /v1/nowhere HTTP/1.1\r\n%bContent-Length: 2\r\n\r\n" % HEAD)
        await reader.readuntil(b"}}")
        writer.write(b"{}")
        await time_passes(LIMITS.header_s)
        assert await reader.read() == b""


@asynccontextmanager
async def asking(server: Served, head: bytes) -> AsyncGenerator[socket.socket]:
    """A connection that has asked, and on which nothing is read but what the test reads."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    loop = asyncio.get_running_loop()
    with socket.socket() as asked:
        asked.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asked.setblocking(False)
        await loop.sock_connect(asked, (host, int(port)))
        await loop.sock_sendall(asked, head + HEAD + b"\r\n")
        yield asked


@on_moved_loop
async def test_who_never_reads_is_cut_off() -> None:
    """P3, P10: what waits for a reader waits for a known time, and then there is room again."""
    async with (
        ChaosServer([Hang()], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        for _ in range(6):
            await server.start("x" * 1_000_000, session_id="s")  # far more than the buffers on the way hold
        async with asking(server, b"GET /api/sessions/s/events HTTP/1.1\r\n"):
            await server.until_streams(1)
            await time_passes(LIMITS.unread_s / 2)
            assert len(server.streams) == 1
            for _ in range(3):  # its time begins when the buffers on the way are full, which nothing tells
                assert (await server.get("/health"))[0] == 200
                await time_passes(LIMITS.unread_s / 2)
            await server.until_streams(0)
        assert (await server.get("/health"))[0] == 200


@on_moved_loop
async def test_who_reads_slowly_gets_all_of_it() -> None:
    """P3: only one that reads nothing at all is not waited for."""
    blob = bytes(6_000_000)
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        async with server.http.post(f"{server.url}/api/blobs", data=io.BytesIO(blob)) as answer:
            name: str = (await answer.json())["blob"]
        head = b"GET /api/blobs/%b HTTP/1.1\r\nConnection: close\r\n" % name.encode()
        async with asking(server, head) as slow:
            got = 0
            while piece := await asyncio.get_running_loop().sock_recv(slow, 65_536):
                got += len(piece)
                if got < SLOWLY_BYTES:
                    await time_passes(LIMITS.unread_s / 10)
        assert got > len(blob)


async def test_who_speaks_http_1_0_gets_no_chunks() -> None:
    """P12: what has no length known in advance ends with the connection, streams too."""
    async with ChaosServer([Say("the answer")]) as chaos, served(target_of(chaos)) as server:
        run_id = await server.start(session_id="s")
        await server.ended(run_id)
        for path, part in (
            ("/api/sessions/s/export", b'"type":"run.ended"'),
            (f"/v1/runs/{run_id}/events", b": stream closed\n\n"),
            ("/health", b'"status":"ok"'),
            ("/api/sessions/none", b'"code":"session_not_found"'),
        ):
            (answer,) = await answers(server, b"GET %b HTTP/1.0\r\n%b\r\n" % (path.encode(), HEAD))
            head, _, body = answer.partition(b"\r\n\r\n")
            assert b"transfer-encoding" not in head
            assert part in body
            assert body[:1] in b"{i", body  # and not the length of a chunk


@for_each_row("hosts", [(), ("*",)])
async def test_a_header_that_decides_about_access_is_sent_once(hosts: tuple[str, ...]) -> None:
    """P11: a proxy in front may have looked at the other one, on any path and with any name allowed."""
    twice = (
        (b"Host: evil.example", b"Host: localhost"),
        (b"Host: localhost", b"Host: localhost"),
        (b"Host: localhost", b"Authorization: Bearer a", b"Authorization: Bearer b"),
        (b"Host: localhost", b"X-Api-Key: a", b"X-Api-Key: b"),
        (b"Host: localhost", b"Origin: http://localhost", b"Origin: http://evil.example"),
        (b"Host: localhost", b"Content-Length: 0", b"Content-Length: 1"),
        (b"Host: localhost", b"Content-Length: 0", b"Transfer-Encoding: chunked"),
    )
    setting = Setting(options=ServerOptions(hosts=hosts))
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        for lines in twice:
            for path in (b"/v1/models", b"/health", b"/hooks/x", b"/"):
                head = b"\r\n".join([b"GET %b HTTP/1.1" % path, *lines, b"Connection: close\r\n\r\n"])
                (answer,) = await answers(server, head)
                assert answer.startswith(b"400"), (head, answer)
        same = HEAD + b"Authorization: Bearer a\r\n" * 2
        (answer,) = await answers(server, b"GET /health HTTP/1.1\r\n%bConnection: close\r\n\r\n" % same)
        assert answer.startswith(b"200")


async def test_what_is_not_there_is_not_there_for_any_method() -> None:
    """P12: 405 is for a path that takes another method; the page takes two."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        for method, path in (
            ("POST", "/v1/nowhere"),
            ("DELETE", "/api/nowhere"),
            ("PUT", "/x"),
            ("PROPFIND", "/x"),
        ):
            answer = await server.call(method, path)
            assert (answer.status, answer.code) == (404, "not_found"), path


async def test_cookies_in_two_headers_are_cookies() -> None:
    """P11: as some proxies hand them on from HTTP/2."""
    setting = Setting(options=ServerOptions(keys=(ApiKey("me", "sk-secret-of-mine"),)))
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        signed_in = await server.signed_in(key="sk-secret-of-mine", host="localhost")
        cookie = signed_in["Cookie"].encode()
        head = HEAD + b"X-Holdfast-Page: %b\r\n" % signed_in["X-Holdfast-Page"].encode()
        for lines in ((cookie, b"theme=dark"), (b"theme=dark", cookie)):
            cookies = b"".join(b"Cookie: %b\r\n" % one for one in lines)
            sent = b"GET /v1/models HTTP/1.1\r\n%b%bConnection: close\r\n\r\n" % (head, cookies)
            (answer,) = await answers(server, sent)
            assert answer.startswith(b"200"), answer
        both = b"Cookie: theme=dark\r\nCookie: %b\r\n" % cookie
        out = b"POST /api/sign-out HTTP/1.1\r\n%b%bContent-Length: 0\r\nConnection: close\r\n\r\n"
        (answer,) = await answers(server, out % (head, both))
        assert answer.startswith(b"200"), answer
        (answer,) = await answers(
            server, b"GET /v1/models HTTP/1.1\r\n%b%bConnection: close\r\n\r\n" % (head, both)
        )
        assert answer.startswith(b"401"), answer


async def test_a_body_may_begin_with_its_mark_and_is_not_taken_compressed() -> None:
    """P12: Windows writes the mark; compressed bytes are no JSON and no file, and it is said so."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        marked = await server.call("POST", "/api/sessions", body=b'\xef\xbb\xbf{"title": "x"}')
        assert (marked.status, marked.json["title"]) == (201, "x")
        for path in ("/api/sessions", "/api/blobs"):
            headers = {"Content-Encoding": "gzip"}
            answer = await server.call("POST", path, body=gzip.compress(b"{}"), headers=headers)
            assert (answer.status, answer.code) == (415, "unsupported_encoding")
            assert answer.json["error"]["param"] == "Content-Encoding"


async def test_what_a_client_holds_already_is_not_sent_again() -> None:
    """A proxy that compresses makes a weak tag of ours."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        _, made = await server.post("/api/blobs", b"bytes")
        path = f"/api/blobs/{made['blob']}"
        tag = (await server.call("GET", path)).headers["ETag"]
        for known, status in ((tag, 304), (f"W/{tag}", 304), (f'"x", {tag}', 304), ("*", 304), ('"x"', 200)):
            answer = await server.call("GET", path, headers={"If-None-Match": known})
            assert (answer.status, answer.headers["ETag"]) == (status, tag), known
