"""What someone without a key can make the server hold: little, for a short time, and at nobody's cost."""

import asyncio
import socket
from contextlib import AsyncExitStack, suppress

from msgspec.structs import replace

from holdfast.chaos import ChaosServer, Say
from holdfast.server.options import ApiKey, Limits, ServerOptions
from holdfast.server.transport.connection import DRAIN_S, UnauthenticatedConnections
from holdfast.server.transport.open_files import OpenFiles
from moved_loop import on_moved_loop, time_passes
from server.transport.raw_http import HEAD, HEALTH, answers, connected
from serving import Served, Setting, served, target_of
from tables import for_each_row

SECRET = "sk-secret-of-the-owner"  # noqa: S105  # the key of a server that lives for a test
OWNER = {"Authorization": f"Bearer {SECRET}"}
BEARER = f"Authorization: Bearer {SECRET}\r\n".encode()


def locked(**limits: float) -> Setting:
    keys = (ApiKey("owner", SECRET),)
    return Setting(options=ServerOptions(keys=keys, limits=Limits(**limits)))  # pyright: ignore[reportArgumentType]


def signing_in(*, length: int) -> bytes:
    return b"POST /api/sign-in HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n" % (HEAD, length)


@on_moved_loop
async def test_a_sign_in_takes_four_kilobytes_said_before_or_found_out() -> None:
    """P11, P12: it is the one body that is read of someone who has no key."""
    async with ChaosServer() as chaos, served(target_of(chaos), setting=locked()) as server:
        padding = "x" * 3_000
        assert (await server.post("/api/sign-in", {"key": SECRET, "more": padding}))[0] == 200
        answer = await server.call("POST", "/api/sign-in", body={"key": SECRET, "more": 2 * padding})
        assert (answer.status, answer.code) == (413, "body_too_large")
        asked = asyncio.create_task(answers(server, signing_in(length=5_000_000) + HEALTH))
        await time_passes(Limits().keep_alive_s)
        (refused,) = await asked
        assert refused.startswith(b"413")
        chunked = (
            b"POST /api/sign-in HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" % HEAD
        )
        (refused,) = await answers(server, chunked + b"2000\r\n" + b" " * 0x2000 + b"\r\n0\r\n\r\n")
        assert refused.startswith(b"413")


@on_moved_loop
async def test_a_sign_in_that_comes_slowly_is_given_up_on() -> None:
    """P3: as soon as headers would be."""
    async with ChaosServer() as chaos, served(target_of(chaos), setting=locked()) as server:
        asked = asyncio.create_task(answers(server, signing_in(length=20) + b'{"key"'))
        await time_passes(Limits().header_s / 2)
        assert not asked.done()
        await time_passes(Limits().header_s / 2)
        await time_passes(DRAIN_S)  # the rest of the body is read before the connection is closed
        (answer,) = await asked
        assert answer.startswith(b"408")
        assert f"{Limits().header_s:.0f} s".encode() in answer


async def test_of_a_body_without_a_key_nothing_is_read_on_any_route() -> None:
    """P11: the answer comes before the body, also to who asks whether to send it."""
    async with ChaosServer() as chaos, served(target_of(chaos), setting=locked()) as server:
        _, document = await server.get("/openapi.json", **OWNER)
        tried = 0
        for path, methods in document["paths"].items():
            for method in {*methods, "put", "head", "options", "delete"}:
                if path in {"/api/sign-in", "/health/ready"} or path.endswith("/health") or "/hooks/" in path:
                    continue
                place = path.replace("{", "").replace("}", "").encode()
                head = b"%b %b HTTP/1.1\r\n%bExpect: 100-continue\r\nContent-Length: 1000000\r\n\r\n"
                async with connected(server) as (reader, writer):
                    writer.write(head % (method.upper().encode(), place, HEAD))
                    assert (await reader.readline()).startswith(b"HTTP/1.1 401"), (method, path)
                tried += 1
        assert tried > 100


async def test_another_protocol_that_is_asked_for_gets_nobody_past_the_key() -> None:
    """P11: WebSockets and the like are not spoken here."""
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n"
    async with ChaosServer() as chaos, served(target_of(chaos), setting=locked()) as server:
        for path in (b"/api/events", b"/v1/runs", b"/"):
            async with connected(server) as (reader, writer):
                writer.write(b"GET %b HTTP/1.1\r\n%b%b\r\n" % (path, HEAD, upgrade))
                first = await reader.readline()
                assert first.startswith((b"HTTP/1.1 401", b"HTTP/1.1 404")), first


async def test_requests_sent_far_ahead_of_their_answers_are_not_gathered() -> None:
    """P10, P11: one packet may hold thousands; those that are taken are answered."""
    request = b"GET /health HTTP/1.1\r\n%b\r\n" % HEAD
    async with ChaosServer() as chaos, served(target_of(chaos), setting=locked(pipelined_max=8)) as server:
        got = await answers(server, request * 2_000)
        assert 1 <= len(got) <= 20
        assert all(answer.startswith(b"200") for answer in got)
        assert len(await answers(server, request * 4 + HEALTH)) == 5


ALIVE = b"GET /health HTTP/1.1\r\n%b\r\n" % HEAD


async def lives(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, said: bytes = ALIVE) -> bool:
    """Whether a connection is still answered."""
    with suppress(ConnectionError):
        writer.write(said)
        return (await reader.readline()).startswith(b"HTTP/1.1 200")
    return False


async def known(server: Served, stack: AsyncExitStack) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has brought a key."""
    reader, writer = await stack.enter_async_context(connected(server))
    writer.write(b"GET /v1/models HTTP/1.1\r\n%b%b\r\n" % (HEAD, BEARER))
    assert (await reader.readuntil(b"}]}")).startswith(b"HTTP/1.1 200")
    return reader, writer


def burst(server: Served, *, size: int) -> list[socket.socket]:
    """Connections that have all sent their request before the server accepts the first."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    clients = [socket.socket() for _ in range(size)]
    for client in clients:
        client.setblocking(False)
        with suppress(BlockingIOError):
            client.connect((host, int(port)))
    for client in clients:
        client.send(b"GET /v1/models HTTP/1.1\r\n%b%bConnection: close\r\n\r\n" % (HEAD, BEARER))
    return clients


@for_each_row(("connections_max", "served_count"), [(1 << 30, 80), (50, 50)])
async def test_a_burst_of_clients_with_keys_gets_an_answer_each(
    connections_max: int, served_count: int
) -> None:
    """P10, P11: past the limit on open files, a 503 that says when to try again; never a reset."""
    setting = locked(unauthenticated_max=5)
    files = OpenFiles(connections_max)
    setting = replace(setting, options=replace(setting.options, open_files=files))
    loop = asyncio.get_running_loop()
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos), setting=setting) as server:
        clients = burst(server, size=80)
        heads: list[bytes] = []
        for client in clients:
            heads.append((await loop.sock_recv(client, 65_536)).split(b"\r\n\r\n")[0])
            while await loop.sock_recv(client, 65_536):
                pass  # to the end, which is no reset
            client.close()
        accepted = [head for head in heads if head.startswith(b"HTTP/1.1 200 ")]
        assert len(accepted) >= served_count
        refused = [head for head in heads if head not in accepted]
        assert all(head.startswith(b"HTTP/1.1 503 ") and b"retry-after: " in head for head in refused)


@on_moved_loop
async def test_many_connections_without_a_key_push_out_the_oldest_and_nobody_who_has_one() -> None:
    """P10, P11: slow senders cannot take all places, nor keep anyone from signing in."""
    async with (
        ChaosServer([Say("x")]) as chaos,
        served(target_of(chaos), setting=locked(unauthenticated_max=5)) as server,
        AsyncExitStack() as stack,
    ):
        friend = await known(server, stack)
        slow = [await stack.enter_async_context(connected(server)) for _ in range(20)]
        for _, writer in slow:
            writer.write(b"GET /health HTTP/1.1\r\nX-Slow: ")
        await time_passes(Limits().unauthenticated_grace_s)
        assert await server.signed_in(key=SECRET)
        for reader, _ in slow[:15]:
            assert (await reader.readline()).startswith(b"HTTP/1.1 503 ")
        assert await lives(*slow[-1], said=b"\r\n\r\n")
        assert await lives(*friend)


async def test_all_of_them_together_hold_no_more_than_the_budget() -> None:
    """P11: heads and bodies alike; the oldest is lost, and never someone who has a key."""
    async with (
        ChaosServer([Say("x")]) as chaos,
        served(target_of(chaos), setting=locked(unauthenticated_bytes_max=20_000)) as server,
        AsyncExitStack() as stack,
    ):
        first = await stack.enter_async_context(connected(server))
        first[1].write(signing_in(length=4_000) + b" " * 3_000)
        for _ in range(4):
            _, writer = await stack.enter_async_context(connected(server))
            writer.write(b"GET /health HTTP/1.1\r\nX-Long: " + b"x" * 6_000)
            await writer.drain()
        with suppress(ConnectionError):
            assert await first[0].read() == b""
        big = await server.call("POST", "/api/blobs", body=b"x" * 900_000, headers=OWNER)
        assert big.status == 201
        assert await server.signed_in(key=SECRET)


class Cuttable:
    was_cut = False

    def cut(self) -> None:
        self.was_cut = True


def test_the_oldest_go_until_the_rest_fits_and_one_alone_stays() -> None:
    unauthenticated = UnauthenticatedConnections(3, 100, grace_s=1.0)
    all_of_them = [Cuttable() for _ in range(5)]
    for at, one in enumerate(all_of_them):
        unauthenticated.hold(one, 10, now_s=0.1 * at)
    assert not any(one.was_cut for one in all_of_them)
    unauthenticated.trim(1.0)
    assert [one.was_cut for one in all_of_them] == [True, False, False, False, False]
    unauthenticated.hold(all_of_them[4], 10, now_s=10.0)
    assert [one.was_cut for one in all_of_them] == [True, True, False, False, False]
    unauthenticated.hold(all_of_them[4], 95, now_s=10.0)
    assert [one.was_cut for one in all_of_them] == [True, True, True, True, False]
    unauthenticated.hold(all_of_them[4], 1_000, now_s=10.0)
    assert (all_of_them[4].was_cut, len(unauthenticated)) == (False, 1)
    unauthenticated.forget(all_of_them[4])
    unauthenticated.forget(all_of_them[4])
    assert len(unauthenticated) == 0
