"""Silence, cuts, floods and statuses, as a client's socket sees them."""

import asyncio
import datetime as dt
import json

import pytest

from chaos.raw_client import connected, events
from holdfast.chaos import (
    Begin,
    CallTool,
    ChaosServer,
    ClosedBy,
    CloseOnReuse,
    CutCall,
    Drip,
    Drop,
    EndOfBody,
    Finish,
    Flood,
    Gate,
    Hang,
    HangUp,
    Headers,
    KeepAlive,
    Say,
    SayInTwoWrites,
    Status,
    Step,
    Wait,
    bad_key,
    closed_port,
    context_overflow,
    insufficient_quota,
    model_missing,
    overloaded,
    overloaded_s,
    rate_limited,
    rate_limited_ms,
    rate_limited_reset,
    rate_limited_s,
    rate_limited_until,
    server_error,
    silent_port,
    too_large,
)

WIRES = ["responses", "chat", "anthropic"]
TERMINAL = {"responses": b"response.completed", "anthropic": b"message_stop", "chat": b"[DONE]"}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", [True, False])
async def test_hang_as_the_first_step_sends_nothing_at_all(wire: str, stream: object) -> None:
    gate = Gate()
    async with ChaosServer([Wait(gate), Hang()]) as chaos:
        async with connected(chaos) as client:
            await client.post(wire, stream=stream)
            gate.open()
            await gate.reached()
            seen = await chaos.seen.until_body(1)
            assert seen.first_byte_s is None
        assert await chaos.seen.until_closed(1) is ClosedBy.PEER
        assert seen.connection.sent_bytes == 0
        assert not seen.finished


@pytest.mark.parametrize("wire", WIRES)
async def test_hang_after_headers_and_after_the_opening_event(wire: str) -> None:
    async with ChaosServer([Headers(), Hang()], [Begin(), Hang()]) as chaos:
        async with connected(chaos) as client:
            await client.post(wire)
            assert await client.read_head() == 200
            assert client.headers["content-type"].startswith("text/event-stream")
            assert chaos.seen.request(1).ended_s is None
        async with connected(chaos) as client:
            await client.post(wire)
            await client.read_head()
            opening = await client.read_chunk()
            first = {"responses": b"response.created", "chat": b'"assistant"', "anthropic": b"message_start"}
            assert first[wire] in opening


@pytest.mark.parametrize("wire", WIRES)
async def test_a_drop_is_a_reset_after_everything_said(wire: str) -> None:
    async with ChaosServer([Say("hel"), Drop()]) as chaos, connected(chaos) as client:
        await client.post(wire)
        await client.read_head()
        with pytest.raises(ConnectionResetError):
            await client.read_body()
        assert await chaos.seen.until_closed(1) is ClosedBy.SERVER
        # What was said has reached the client's kernel, and its reader, before the reset did.
        assert chaos.seen.request(1).connection.sent_bytes > 0


async def test_a_drop_loses_nothing_that_was_said_before() -> None:
    async with ChaosServer([Say("hel"), Drop()]) as chaos, connected(chaos) as client:
        await client.post("chat")
        await client.read_head()
        await client.read_chunk()
        assert b"hel" in await client.read_chunk()
        with pytest.raises(ConnectionResetError):
            await client.read_chunk()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_drop_as_the_first_step_sends_nothing(stream: object) -> None:
    async with ChaosServer([Drop()]) as chaos, connected(chaos) as client:
        await client.post("chat", stream=stream)
        with pytest.raises(ConnectionResetError):
            await client.read_head()
        assert chaos.seen.request(1).connection.sent_bytes == 0


@pytest.mark.parametrize("wire", WIRES)
async def test_a_clean_end_without_the_marker_keeps_the_connection(wire: str) -> None:
    async with ChaosServer([Say("hel"), EndOfBody()], [Say("hello")]) as chaos, connected(chaos) as client:
        await client.post(wire)
        body = await client.answer()
        assert b"hel" in body
        assert TERMINAL[wire] not in body
        await client.post(wire)
        assert TERMINAL[wire] in await client.answer()
        assert chaos.seen.connections_seen == 1
        assert chaos.seen.request(2).is_on_used_connection


@pytest.mark.parametrize("wire", WIRES)
async def test_hanging_up_in_mid_body_is_a_fin(wire: str) -> None:
    async with ChaosServer([Say("hel"), HangUp()], [HangUp()]) as chaos:
        async with connected(chaos) as client:
            await client.post(wire)
            await client.read_head()
            with pytest.raises(asyncio.IncompleteReadError):
                await client.read_body()
        async with connected(chaos) as client:
            await client.post(wire)
            assert await client.reader.read() == b""


@pytest.mark.parametrize("end", [EndOfBody(), HangUp(), Drop()])
async def test_an_answer_in_one_body_is_cut_in_half(end: Step) -> None:
    async with ChaosServer([Say("hello"), end]) as chaos, connected(chaos) as client:
        await client.post("chat", stream=False)
        assert await client.read_head() == 200
        half = await client.read_chunk()
        assert half.startswith(b"{")
        with pytest.raises(json.JSONDecodeError):
            json.loads(half)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_cut_call_can_end_in_a_reset(wire: str) -> None:
    async with ChaosServer([CutCall("t", {"a": 1}), Drop()]) as chaos, connected(chaos) as client:
        await client.post(wire)
        await client.read_head()
        with pytest.raises(ConnectionResetError):
            await client.read_body()


async def test_a_call_can_be_whole_and_the_marker_still_missing() -> None:
    async with ChaosServer([CallTool("t", {"a": 1}), EndOfBody()]) as chaos, connected(chaos) as client:
        await client.post("responses")
        body = await client.answer()
        assert b"response.output_item.done" in body
        assert b"response.completed" not in body


@pytest.mark.parametrize("wire", WIRES)
async def test_keep_alives_go_on_until_the_client_leaves(wire: str) -> None:
    async with ChaosServer([KeepAlive(pace_s=0.001)]) as chaos:
        async with connected(chaos) as client:
            await client.post(wire)
            await client.read_head()
            chunks = {await client.read_chunk() for _ in range(20)}
            ping = b'event: ping\ndata: {"type":"ping"}\n\n' if wire == "anthropic" else b": keep-alive\n\n"
            assert chunks == {ping}
        assert await chaos.seen.until_closed(1) is ClosedBy.PEER


async def test_an_answer_in_one_body_is_kept_alive_by_white_space() -> None:
    script = [KeepAlive(times=3, pace_s=0.001), Say("hello")]
    async with ChaosServer(script) as chaos, connected(chaos) as client:
        await client.post("chat", stream=False)
        body = await client.answer()
        assert body.startswith(b"\n\n\n{")
        assert json.loads(body)["choices"][0]["message"]["content"] == "hello"


async def test_a_finished_answer_whose_body_never_ends() -> None:
    gate = Gate()
    async with ChaosServer([Say("x"), Finish(), Wait(gate)]) as chaos, connected(chaos) as client:
        await client.post("chat")
        await client.read_head()
        while b"[DONE]" not in await client.read_chunk():
            pass
        await gate.reached()
        gate.open()
        assert await client.read_chunk() == b""


@pytest.mark.parametrize("wire", WIRES)
async def test_a_drip_leaves_byte_by_byte_and_is_the_same_answer(wire: str) -> None:
    async with ChaosServer([Drip(1), Say("ab")], [Drip(7, pace_s=0.0001), Drip(0), Say("ab")]) as chaos:
        async with connected(chaos) as client:
            await client.post(wire)
            dripped = events(await client.answer())
        async with connected(chaos) as client:
            await client.post(wire)
            assert len(events(await client.answer())) == len(dripped)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_character_is_cut_in_two_by_tcp_writes(wire: str) -> None:
    gate = Gate()
    async with ChaosServer([SayInTwoWrites("naïve", gate)]) as chaos, connected(chaos) as client:
        await client.post(wire)
        await gate.reached()
        before = b""
        while not before.endswith(b"na" + "ï".encode()[:1]):
            before += await client.reader.read(1)
        with pytest.raises(UnicodeDecodeError):
            before.decode()
        gate.open()
        after = await client.reader.readuntil(b"0\r\n\r\n")
        assert "naïve" in (before + after).decode()


async def test_without_a_gate_the_halves_are_two_writes_all_the_same() -> None:
    async with ChaosServer([SayInTwoWrites("é", pace_s=0)], [SayInTwoWrites("é")]) as chaos:
        async with connected(chaos) as client:
            await client.post("chat")
            assert "é" in (await client.answer()).decode()
        async with connected(chaos) as client:
            await client.post("chat", stream=False)
            assert "é" in (await client.answer()).decode()


@pytest.mark.parametrize("wire", WIRES)
async def test_a_flood_is_one_frame_of_five_megabytes(wire: str) -> None:
    async with ChaosServer([Flood()]) as chaos, connected(chaos) as client:
        await client.post(wire)
        await client.read_head()
        longest = 0
        while chunk := await client.read_chunk():
            longest = max(longest, len(chunk))
        assert longest > 5_000_000


async def test_a_stale_connection_is_closed_when_the_next_request_arrives() -> None:
    async with ChaosServer([CloseOnReuse(), Say("a")], [Say("b")]) as chaos:
        async with connected(chaos) as client:
            await client.post("chat")
            await client.answer()
            await client.post("chat")
            assert await client.reader.read() == b""
        assert await chaos.seen.until_closed(1) is ClosedBy.SERVER
        assert chaos.seen.requests_seen == 1
        async with connected(chaos) as client:
            await client.post("chat")
            assert b'"b"' in await client.answer()


RETRY = dt.datetime(2030, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
STATUSES: list[tuple[Status, int, dict[str, str], str]] = [
    (Status(418, {"X-Tea": "yes"}, "short and stout"), 418, {"x-tea": "yes"}, "short and stout"),
    (rate_limited(), 429, {}, "rate"),
    (rate_limited_s(2), 429, {"retry-after": "2"}, "rate"),
    (rate_limited_ms(1500), 429, {"retry-after-ms": "1500"}, "rate"),
    (rate_limited_until(RETRY), 429, {"retry-after": "Wed, 02 Jan 2030 03:04:05 GMT"}, "rate"),
    (rate_limited_reset("1s", "6m0s"), 429, {"x-ratelimit-reset-tokens": "6m0s"}, "rate"),
    (insufficient_quota(), 429, {}, "insufficient_quota"),
    (overloaded(), 503, {}, "verloaded"),
    (overloaded(529), 529, {}, "error"),
    (overloaded_s(3), 503, {"retry-after": "3"}, "verloaded"),
    (server_error(502), 502, {}, "error"),
    (bad_key(), 401, {}, "key"),
    (model_missing("m"), 404, {}, "does not exist"),
    (context_overflow(), 400, {}, "context"),
    (too_large(), 413, {}, "too_large"),
]


@pytest.mark.parametrize("wire", WIRES)
async def test_statuses_carry_their_headers_and_the_wires_error_envelope(wire: str) -> None:
    scripts = [script for step, *_ in STATUSES for script in ([step], [Say("x")])]
    async with ChaosServer(*scripts) as chaos, connected(chaos) as client:
        for step, status, headers, words in STATUSES:
            await client.post(wire)
            assert await client.read_head() == status, step
            assert headers.items() <= client.headers.items(), step
            body = await client.read_body()
            assert words in body.decode(), step
            if step.body is None:
                error = json.loads(body)
                assert ("request_id" in error) == (wire == "anthropic"), step
                assert error["error"]["message"], step
            await client.post(wire)
            assert TERMINAL[wire] in await client.answer(), step


async def test_a_closed_port_refuses_and_a_silent_port_neither_refuses_nor_accepts() -> None:
    with closed_port() as port, pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    with silent_port() as port:
        connecting = asyncio.get_running_loop().create_task(asyncio.open_connection("127.0.0.1", port))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await asyncio.shield(connecting)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
