"""What the server remembers: requests, times, uploads, and who closed each connection."""

import asyncio
import contextlib
import json
import socket

import pytest

from chaos.raw_client import RawClient, connected
from holdfast.chaos import (
    ChaosOptions,
    ChaosServer,
    ClosedBy,
    Finish,
    Gate,
    Hang,
    ReadOnly,
    ReadRest,
    ReadSlowly,
    RecordLimits,
    Say,
    Wait,
    too_large,
)
from ports import reserved_port

UPLOAD_BYTES = 8_000_000


async def send_until_blocked(client: RawClient) -> None:
    """Write more than any kernel takes; ends only with the connection."""
    await client.send_head("chat", UPLOAD_BYTES)
    client.writer.write(b" " * UPLOAD_BYTES)


async def test_a_request_is_remembered_with_its_times_in_order() -> None:
    async with ChaosServer([Say("x")]) as chaos, connected(chaos) as client:
        payload = json.dumps({"model": "gpt", "input": "hi"}).encode()
        await client.send_head("responses", len(payload), authorization="Bearer k")
        client.writer.write(payload)
        await client.answer()
        seen = await chaos.seen.until_ended(1)
    assert (seen.method, seen.path, seen.wire, seen.model) == ("POST", "/v1/responses", "responses", "gpt")
    assert seen.headers["authorization"] == "Bearer k"
    assert seen.body == {"model": "gpt", "input": "hi"}
    assert seen.upload_bytes == len(payload)
    assert not seen.wants_stream
    assert seen.finished
    times = [seen.accepted_s, seen.headers_s, seen.body_s, seen.first_byte_s, seen.ended_s]
    assert None not in times
    assert times == sorted(time_s for time_s in times if time_s is not None)


async def test_who_closed_a_connection_is_known() -> None:
    gate = Gate()
    scripts = [[Wait(gate)], [Wait(gate)], [Say("x")]]
    async with ChaosServer(*scripts) as chaos:
        async with connected(chaos) as client:
            await client.post()
            await gate.reached(1)
            client.writer.close()
            assert await chaos.seen.until_closed(1) is ClosedBy.PEER
        async with connected(chaos) as client:
            await client.post()
            await gate.reached(2)
            client.reset()
            assert await chaos.seen.until_closed(2) is ClosedBy.PEER_RESET
        reader_writer = await asyncio.open_connection("127.0.0.1", chaos.port)
        left_open = RawClient(*reader_writer)
        await left_open.post()
        await left_open.answer()
    assert chaos.seen.request(3).connection.closed_by is ClosedBy.SERVER
    assert [seen.finished for seen in chaos.seen.requests] == [False, False, True]
    left_open.writer.transport.abort()


async def test_one_can_wait_for_what_has_not_happened_yet() -> None:
    async with ChaosServer([Say("a")], [Hang()]) as chaos:
        loop = asyncio.get_running_loop()
        second = loop.create_task(chaos.seen.until_request(2))
        closed = loop.create_task(chaos.seen.until_closed(2))
        async with connected(chaos) as client:
            await client.post()
            await client.answer()
            assert not second.done()
            await client.post()
            assert (await second).number == 2
            assert not closed.done()
            await chaos.seen.until_connections(1)
        assert await closed is ClosedBy.PEER
        await chaos.seen.until_all_closed()
        assert [seen.requests for seen in chaos.seen.connections] == [2]


async def test_memory_is_bounded() -> None:
    options = ChaosOptions(limits=RecordLimits(requests_max=3, bodies_max=2, body_bytes_max=1_000))
    async with (
        ChaosServer([Finish()], after_last="repeat", options=options) as chaos,
        connected(chaos) as client,
    ):
        for _ in range(5):
            await client.post()
            await client.answer()
        await client.post(padding="x" * 2_000)
        assert await client.read_head() == 400
    assert chaos.seen.requests_seen == 6
    assert [seen.number for seen in chaos.seen.requests] == [4, 5, 6]
    assert [seen.body is None for seen in chaos.seen.requests] == [True, False, True]
    assert chaos.seen.request(6).upload_bytes > 2_000


async def test_an_upload_that_nobody_reads() -> None:
    options = ChaosOptions(receive_buffer_bytes=4_096)
    async with ChaosServer([ReadOnly(0), Hang()], options=options) as chaos:
        async with connected(chaos) as client:
            await send_until_blocked(client)
            seen = await chaos.seen.until_request(1)
            assert seen.upload_bytes < 10_000
            client.reset()
            assert await chaos.seen.until_closed(1) is ClosedBy.PEER_RESET
        assert seen.body_s is None
        assert seen.upload_bytes < 10_000


async def test_a_peer_that_closes_is_noticed_while_its_upload_is_not_read() -> None:
    async with ChaosServer([ReadOnly(0), Hang()]) as chaos, connected(chaos) as client:
        await client.send_head("chat", 100_000)
        client.writer.write(b" " * 50_000)
        await chaos.seen.until_request(1)
        client.writer.close()
        assert await chaos.seen.until_closed(1) is ClosedBy.PEER


async def test_an_upload_that_is_read_in_part() -> None:
    gate = Gate()
    async with (
        ChaosServer([ReadOnly(100_000), Wait(gate), ReadRest(), Say("thanks")]) as chaos,
        connected(chaos) as client,
    ):
        payload = json.dumps({"model": "m", "padding": "x" * 6_000_000}).encode()
        await client.send_head("chat", len(payload))
        client.writer.write(payload)
        await gate.reached()
        assert 100_000 <= chaos.seen.request(1).upload_bytes < 110_000
        gate.open()
        assert await client.read_head() == 200
        assert chaos.seen.request(1).upload_bytes == len(payload)
        # Whether to stream was not known when the script began; by now the body says no.
        assert b"thanks" in await client.read_body()


async def test_an_upload_that_is_read_slowly() -> None:
    async with (
        ChaosServer([ReadSlowly(bytes_per_s=1_000_000, piece_bytes=1_000)]) as chaos,
        connected(chaos) as client,
    ):
        await client.post(padding="x" * 20_000)
        assert b"[DONE]" in await client.answer()
    async with ChaosServer([ReadSlowly(bytes_per_s=10)]) as chaos:
        async with connected(chaos) as client:
            await client.post(padding="x" * 20_000)
            seen = await chaos.seen.until_request(1)
            before = seen.upload_bytes
            await chaos.seen.until(lambda: seen.upload_bytes > before)
            assert seen.upload_bytes < before + 10
        assert await chaos.seen.until_closed(1) in {ClosedBy.PEER, ClosedBy.PEER_RESET}


async def test_an_early_answer_during_the_upload() -> None:
    async with (
        ChaosServer([ReadOnly(1_000), too_large(), ReadRest()]) as chaos,
        connected(chaos) as client,
    ):
        await send_until_blocked(client)
        assert await client.read_head() == 413
        assert client.headers["connection"] == "close"
        seen = await chaos.seen.until_request(1)
        assert seen.upload_bytes < UPLOAD_BYTES or seen.first_byte_s is not None
        await client.read_body()
        await chaos.seen.until_ended(1)
        assert seen.upload_bytes == UPLOAD_BYTES
        assert await client.reader.read() == b""
        assert await chaos.seen.until_closed(1) is ClosedBy.SERVER


async def test_an_early_answer_that_reads_no_further_closes_the_connection() -> None:
    async with ChaosServer([ReadOnly(1_000), too_large()]) as chaos, connected(chaos) as client:
        await send_until_blocked(client)
        assert await chaos.seen.until_closed(1) is ClosedBy.SERVER


async def test_a_client_that_expects_to_be_asked_is_asked() -> None:
    async with ChaosServer([Say("x")]) as chaos, connected(chaos) as client:
        payload = b'{"stream": true}'
        await client.send_head("chat", len(payload), expect="100-continue")
        assert await client.read_head() == 100
        client.writer.write(payload)
        assert b"[DONE]" in await client.answer()


async def test_a_body_that_is_no_json_object_gets_a_clear_error() -> None:
    async with ChaosServer([Say("x")], [Say("y")]) as chaos, connected(chaos) as client:
        await client.send_head("anthropic", 2)
        client.writer.write(b"[]")
        assert await client.read_head() == 400
        assert b"not a JSON object" in await client.read_body()


async def test_what_is_no_http_and_what_is_no_path_of_ours() -> None:
    async with ChaosServer() as chaos:
        async with connected(chaos) as client:
            client.writer.write(b"hello?\r\n\r\n")
            assert await client.read_head() == 400
            assert await client.reader.read() == b""
        async with connected(chaos) as client:
            client.writer.write(b"GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n")
            assert await client.read_head() == 404
            assert b"/v1/responses" in await client.read_body()
        assert chaos.seen.requests_seen == 0


async def test_a_request_that_comes_before_the_last_step_is_done_waits_its_turn() -> None:
    gate = Gate()
    async with (
        ChaosServer([Say("a"), Finish(), Wait(gate)], [Say("b")]) as chaos,
        connected(chaos) as client,
    ):
        await client.post()
        await gate.reached()
        connection = chaos.seen.connections[0]
        before = connection.received_bytes
        await client.post()
        await chaos.seen.until(lambda: connection.received_bytes > before)
        assert chaos.seen.requests_seen == 1
        gate.open()
        assert b'"a"' in await client.answer()
        assert b'"b"' in await client.answer()


async def test_a_body_of_no_length_is_read_in_chunks() -> None:
    async with ChaosServer([Say("x")]) as chaos, connected(chaos) as client:
        client.writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
            b'e\r\n{"model": "q"}\r\n0\r\n\r\n'
        )
        assert await client.read_head() == 200
        assert chaos.seen.request(1).model == "q"


async def test_a_client_that_wants_to_close_is_closed() -> None:
    async with ChaosServer([Say("x")]) as chaos, connected(chaos) as client:
        await client.send_head("chat", 2, connection="close")
        client.writer.write(b"{}")
        await client.answer()
        assert await client.reader.read() == b""
        assert await chaos.seen.until_closed(1) is ClosedBy.SERVER


@pytest.mark.parametrize("stop_in", ["hang", "upload", "idle"])
async def test_nothing_outlives_the_context(stop_in: str) -> None:
    script = {"hang": [Say("x"), Hang()], "upload": [ReadOnly(0), Hang()], "idle": [Say("x")]}[stop_in]
    before = asyncio.all_tasks()
    port = reserved_port()
    async with ChaosServer(script, options=ChaosOptions(port=port)) as chaos:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        client = RawClient(reader, writer)
        if stop_in == "upload":
            await send_until_blocked(client)
        else:
            await client.post()
        await chaos.seen.until_request(1)
    assert asyncio.all_tasks() == before
    assert all(seen.closed_s is not None for seen in chaos.seen.connections)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    writer.transport.abort()


async def test_a_connection_that_is_just_beginning_ends_with_the_server() -> None:
    loop = asyncio.get_running_loop()
    for turns in range(8):
        with socket.socket() as client:
            client.setblocking(False)
            async with ChaosServer() as chaos:
                await loop.sock_connect(client, ("127.0.0.1", chaos.port))
                for _ in range(turns):
                    await asyncio.sleep(0)
            with contextlib.suppress(ConnectionError):
                assert await loop.sock_recv(client, 1) == b"", turns
