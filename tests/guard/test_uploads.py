"""Requests on their way out: connecting, and bodies that the peer does not take."""

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

from guard.ways import SOON_S, caught, chat, client, packages, was_cut
from holdfast import guard
from holdfast.chaos import (
    ChaosOptions,
    ChaosServer,
    ClosedBy,
    Hang,
    ReadOnly,
    ReadSlowly,
    Say,
    closed_port,
    silent_port,
    too_large,
)

LARGE_BYTES = 8_000_000
SWALLOWED_BYTES = 500_000  # the kernel takes it all at once; the peer has not
SMALL_BUFFER = ChaosOptions(receive_buffer_bytes=64 * 1024)


class Untraced(httpx2.AsyncBaseTransport):
    """Another transport than httpx2's own: it says nothing of its connections."""

    def __init__(self) -> None:
        self._real = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        del request.extensions["trace"]
        return await self._real.handle_async_request(request)

    async def aclose(self) -> None:
        await self._real.aclose()


async def test_an_upload_that_is_not_taken_is_cut() -> None:
    async def cut(*, reading: ReadOnly | ReadSlowly, body_bytes: int) -> None:
        guarded = client(upload_s=2 * SOON_S)
        async with ChaosServer([reading, Hang()], options=SMALL_BUFFER) as chaos, guarded:
            with pytest.raises(
                guard.UploadStalled, match=r"no byte of the request accepted for 0.4 s"
            ) as raised:
                await guarded.post(f"{chaos.base_url}/responses", json={"input": "x" * body_bytes})
            assert isinstance(raised.value, httpx2.WriteTimeout)
            assert (raised.value.failure.kind, raised.value.close_reason) == ("upload_stalled", "upload_kill")
            assert raised.value.request.url.path == "/v1/responses"
            assert await chaos.seen.until_closed(1) is ClosedBy.PEER_RESET

    await asyncio.gather(
        cut(reading=ReadOnly(0), body_bytes=LARGE_BYTES),
        cut(reading=ReadSlowly(10), body_bytes=LARGE_BYTES),
        cut(reading=ReadOnly(0), body_bytes=SWALLOWED_BYTES),
        _cut_through_another_transport(),
    )


async def _cut_through_another_transport() -> None:
    guarded = guard.client(Untraced(), upload_s=2 * SOON_S)
    async with ChaosServer([ReadOnly(0), Hang()], options=SMALL_BUFFER) as chaos, guarded:
        with pytest.raises(guard.UploadStalled):
            await guarded.post(f"{chaos.base_url}/responses", json={"input": "x" * LARGE_BYTES})


async def test_a_steady_upload_may_last_longer_than_its_deadline() -> None:
    script = [ReadSlowly(bytes_per_s=400_000, piece_bytes=20_000), Say("hello")]
    guarded = client(upload_s=0.5)
    async with ChaosServer(script, options=SMALL_BUFFER) as chaos, guarded:
        response = await guarded.post(f"{chaos.base_url}/responses", json={"input": "x" * 300_000})
        assert response.status_code == 200


async def test_an_early_answer_passes_while_the_upload_hangs() -> None:
    guarded = client(upload_s=30)
    async with ChaosServer([ReadOnly(1000), too_large(), Hang()], options=SMALL_BUFFER) as chaos, guarded:
        body = {"input": "x" * 500_000}
        async with guarded.stream("POST", f"{chaos.base_url}/responses", json=body) as response:
            assert response.status_code == 413


async def test_a_body_that_is_made_while_it_is_sent_passes_unchanged() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b'{"input": "', b"x" * 200_000, b'"}'):
            yield piece

    guarded = client()
    async with ChaosServer([Say("hello")]) as chaos, guarded:
        await guarded.post(f"{chaos.base_url}/responses", content=pieces())
        seen = await chaos.seen.until_body(1)
        assert seen.body == {"input": "x" * 200_000}


async def test_a_connection_that_does_not_come_about_is_cut() -> None:
    with silent_port() as port:
        async with client(connect_s=SOON_S) as guarded:
            with pytest.raises(guard.NotConnected, match=r"no connection in 0.2 s") as raised:
                await guarded.get(f"http://127.0.0.1:{port}/v1/models")
    assert isinstance(raised.value, httpx2.ConnectTimeout)
    assert (raised.value.failure.kind, raised.value.close_reason) == ("connect_failed", "connect_kill")


async def test_a_refused_connection_stays_the_error_that_it_is() -> None:
    with closed_port() as port:
        async with client() as guarded:
            with pytest.raises(httpx2.ConnectError):
                await guarded.get(f"http://127.0.0.1:{port}/v1/models")


async def test_another_transport_that_hangs_is_cut_as_well() -> None:
    guarded = guard.client(Untraced(), first_event_s=SOON_S, connect_s=5, upload_s=5)
    async with ChaosServer([Hang()]) as chaos, packages(chaos, guarded) as ask:
        assert isinstance(await caught(chat(ask)), guard.NoFirstEvent)
        assert await was_cut(chaos)
