"""When the client sees what: nothing before content, keep-alives after a while, and each opening once."""

import asyncio
import json
from typing import Any

from features.relay.relaying import PATHS, body_for, relaying, target_on
from holdfast.chaos import Begin, ChaosServer, Drop, Gate, Hang, Say, Wait, overloaded
from holdfast.chaos.steps import OpenItem
from holdfast.targets import Patience, Wire
from serving import Served
from side_by_side import on_each_wire

KEEP_ALIVE = {"chat": b": keep-alive", "responses": b": keep-alive", "anthropic": b"event: ping"}
OPENING = {
    "chat": b'"role":"assistant"',
    "responses": b"event: response.created",
    "anthropic": b"event: message_start",
}
AT_ONCE: dict[str, Any] = {"hold_s": 0.0, "keep_alive_s": 0.02}


async def until(content: Any, wanted: bytes) -> bytes:
    """Read until these bytes have come."""
    seen = b""
    while wanted not in seen:
        piece = await content.readany()
        assert piece, seen
        seen += piece
    return seen


def asking(server: Served, wire: Wire) -> Any:
    return server.http.post(server.url + PATHS[wire], json=body_for(wire, stream=True))


@on_each_wire
async def test_the_opening_is_held_until_there_is_content(wire: Wire) -> None:
    gate = Gate()
    script = [Begin(), OpenItem("text"), Wait(gate), Say("hello")]
    async with ChaosServer(script) as chaos, relaying(target_on(chaos, wire), keep_alive_s=0.01) as server:
        waiting = asyncio.ensure_future(asking(server, wire).__aenter__())
        await gate.reached()
        assert not waiting.done()  # not even a status: the attempt could still be replaced
        gate.open()
        answer = await waiting
        body = await answer.read()
        assert body.index(OPENING[wire]) < body.index(b"hello")
        assert KEEP_ALIVE[wire] not in body[: body.index(b"hello")]


@on_each_wire
async def test_after_a_while_the_client_has_its_status_and_keep_alives(wire: Wire) -> None:
    gate = Gate()
    async with (
        ChaosServer([Wait(gate), Say("hello")]) as chaos,
        relaying(target_on(chaos, wire), **AT_ONCE) as server,
        asking(server, wire) as answer,
    ):
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        await until(answer.content, KEEP_ALIVE[wire])
        gate.open()
        await until(answer.content, b"hello")


@on_each_wire
async def test_a_replacements_opening_is_not_sent_twice(wire: Wire) -> None:
    gate = Gate()
    first = [Begin(), Wait(gate), Drop()]
    async with ChaosServer(first, [Say("hello")]) as chaos:
        async with (
            relaying(target_on(chaos, wire), hold_s=0.0, keep_alive_s=9) as server,
            asking(server, wire) as answer,
        ):
            seen = await until(answer.content, OPENING[wire])
            gate.open()
            seen += await answer.content.read()
        assert seen.count(OPENING[wire]) == 1
        assert b"hello" in seen
        assert len(chaos.seen.requests) == 2


@on_each_wire
async def test_an_item_that_was_only_opened_is_still_replaced(wire: Wire) -> None:
    gate = Gate()
    first = [Begin(), OpenItem("thinking"), Wait(gate), Drop()]
    async with ChaosServer(first, [Say("hello")]) as chaos:
        async with (
            relaying(target_on(chaos, wire), hold_s=0.0, keep_alive_s=9) as server,
            asking(server, wire) as answer,
        ):
            seen = await until(answer.content, OPENING[wire])
            assert b"thinking" not in seen
            gate.open()
            seen += await answer.content.read()
        assert b"hello" in seen
        assert b"content_block_start" not in seen or seen.count(b'"index":0,"content_block"') == 1


@on_each_wire
async def test_a_failure_after_the_status_is_an_event_of_the_clients_protocol(wire: Wire) -> None:
    """P4: the status can't be taken back, so the stream says what happened."""
    gate = Gate()
    scripts: list[Any] = [[Wait(gate), overloaded()], [overloaded()], [overloaded()]]
    async with ChaosServer(*scripts) as chaos:
        async with (
            relaying(target_on(chaos, wire), hold_s=0.0, keep_alive_s=9) as server,
            asking(server, wire) as answer,
        ):
            assert answer.status == 200
            gate.open()
            body = await answer.read()
        last = json.loads(body.rstrip().rpartition(b"data: ")[2])
        error = last["response"]["error"] if wire == "responses" else last["error"]
        assert "overloaded" in error["message"].lower()
        assert b"[DONE]" not in body
        assert b"message_stop" not in body


@on_each_wire
async def test_a_silent_gap_ends_with_an_error_event(wire: Wire) -> None:
    """P3: nothing hangs, in the middle of an answer either."""
    patience = Patience(first_event_s=20, gap_s=0.2)
    async with ChaosServer([Say("half"), Hang()]) as chaos:
        async with (
            relaying(target_on(chaos, wire, patience=patience)) as server,
            asking(server, wire) as answer,
        ):
            body = await answer.read()
        assert b"half" in body
        assert b"no events for" in body


@on_each_wire
async def test_a_request_without_a_stream_gets_no_keep_alive(wire: Wire) -> None:
    gate = Gate()
    async with ChaosServer([Wait(gate), Say("hello")]) as chaos:
        async with relaying(target_on(chaos, wire), **AT_ONCE) as server:
            asked = asyncio.ensure_future(server.call("POST", PATHS[wire], body=body_for(wire)))
            await gate.reached()
            await asyncio.sleep(0.05)
            gate.open()
            answer = await asked
        assert KEEP_ALIVE[wire] not in answer.body
        assert answer.headers["Content-Length"] == str(len(answer.body))
