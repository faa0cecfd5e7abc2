"""Streams that go on: a dropped connection, a server that restarts, a server that comes back elsewhere."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.cutting import Cutting
from client.moving import PATIENT_CLIENT, Moving
from holdfast import events as e
from holdfast.chaos import ChaosServer, Gate, Say, Wait
from holdfast.client import Address, Away, Back, Client, ClientPatience, LiveLine, Refused, Seen, Unreachable
from holdfast.client.streams import FrameParser, StreamFrame
from holdfast.journal.memory_disk import MemoryDisk
from serving import PATIENT, limited, served, target_of
from stores import MemoryStore


async def test_a_stream_that_is_cut_after_every_few_bytes_gives_the_same_log() -> None:
    """P7: each event once and in its order, however often the connection breaks."""
    words = [Say(f"word {number} ") for number in range(12)]
    async with ChaosServer(words) as chaos, served(target_of(chaos)) as server, Client(server.url) as client:
        run_id = (await client.start("hi")).run_id
        whole = [one async for one in client.follow(run_id)]
        async with (
            Cutting(server.url, after_bytes=900) as proxy,
            Client(proxy.url, patience=PATIENT_CLIENT) as cut,
        ):
            heard = [one async for one in cut.watch(run_id)]
    assert [one for one in heard if isinstance(one, Seen)] == whole
    assert sum(isinstance(one, Away) for one in heard) >= 2
    assert proxy.connections > 2


async def test_a_server_that_restarts_elsewhere_is_found_again_and_the_run_goes_on() -> None:
    """P6, P7: the client asks where the server is, and goes on from its cursor."""
    disk, gate, moving = MemoryDisk(), Gate(), Moving()
    heard: list[object] = []
    async with ChaosServer([Say("half"), Wait(gate)], [Say("the whole answer")]) as chaos:
        target = target_of(chaos, patience=PATIENT)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(where=moving.where, patience=PATIENT_CLIENT))
            async with served(target, store=MemoryStore(disk)) as server:
                moving.url = server.url
                started = await client.start("hi")
                following = client.watch(started.run_id)
                async for one in following:
                    heard.append(one)
                    if isinstance(one, Seen) and isinstance(one.event, e.TextDelta):
                        break
            async for one in following:
                heard.append(one)
                if isinstance(one, Away):
                    break
            async with served(target, store=MemoryStore(disk)) as server:
                moving.url = server.url
                heard += [one async for one in following]
                assert (await client.run(started.run_id)).output == "the whole answer"
    seqs = [one.seq for one in heard if isinstance(one, Seen)]
    assert seqs == sorted(set(seqs))
    assert any(isinstance(one, Back) for one in heard)
    assert any(isinstance(one, Seen) and isinstance(one.event, e.RunResumed) for one in heard)
    assert isinstance(heard[-1], Seen)
    assert isinstance(heard[-1].event, e.RunEnded)


async def test_a_request_waits_for_a_server_that_is_about_to_come() -> None:
    """P2: sent again under one idempotency key, it has one effect."""
    moving, asked = Moving(), asyncio.Event()

    async def where() -> Address:
        if not asked.is_set():
            asked.set()
            raise ConnectionError("no server yet")
        return await moving.where()

    patience = ClientPatience(first_s=0.01, most_s=0.02, call_s=60)
    async with ChaosServer([Say("x")]) as chaos, Client(where=where, patience=patience) as client:
        starting = asyncio.create_task(client.start("hi"))
        await asked.wait()
        async with served(target_of(chaos)) as server:
            moving.url = server.url
            run_id = (await starting).run_id
            assert (await client.ended(run_id)).output == "x"
            assert len((await client.runs()).data) == 1


async def test_a_reader_that_comes_with_the_last_cursor_is_told_that_nothing_follows() -> None:
    async with (
        ChaosServer([Say("x")]) as chaos,
        served(target_of(chaos)) as server,
        Client(server.url) as client,
    ):
        run_id = (await client.start("hi")).run_id
        last = [one async for one in client.follow(run_id)][-1]
        assert [one async for one in client.follow(run_id, after=last.seq)] == []
        with pytest.raises(Refused, match="Run not found"):
            await anext(client.follow("run_x"))


async def test_the_live_line_is_heard_beside_the_log() -> None:
    gate = Gate()
    async with (
        ChaosServer([Say("x"), Wait(gate), Say("y")]) as chaos,
        served(
            target_of(chaos, patience=PATIENT), setting=limited(live_after_s=0.0, live_every_s=0.05)
        ) as server,
        Client(server.url) as client,
    ):
        started = await client.start("hi")
        async for one in client.watch_session(started.session_id):
            if isinstance(one, LiveLine):
                assert one.run_id == started.run_id
                assert "m " in one.text
                gate.open()
            elif isinstance(one, Seen) and isinstance(one.event, e.RunEnded):
                break


async def test_a_stream_whose_server_stays_away_is_given_up() -> None:
    """P3: after its patience, and not before it has tried."""
    moving = Moving()
    patience = ClientPatience(first_s=0.01, most_s=0.02, follow_s=0.05)
    async with Client(where=moving.where, patience=patience) as client:
        following = client.watch("run_x")
        assert isinstance(await anext(following), Away)
        with pytest.raises(Unreachable):
            await _drained(following)


async def _drained(following: AsyncIterator[object]) -> None:
    async for _ in following:
        pass


@given(st.lists(st.integers(1, 40), max_size=40))
def test_frames_are_the_same_wherever_the_stream_is_cut(cuts: list[int]) -> None:
    text = b'id: 7\ndata: {"a": 1}\n\n: keepalive\n\ndata: {"live": true}\n\n'
    text += b'id: 8\ndata: {"b":\ndata:  2}\n\nid: 9\n'
    parser, frames, at = FrameParser(), list[StreamFrame](), 0
    for size in [*cuts, len(text)]:
        frames += parser.feed(text[at : at + size])
        at += size
    assert [(frame.id, frame.data) for frame in frames] == [
        (7, b'{"a": 1}'),
        (0, b'{"live": true}'),
        (8, b'{"b":\n 2}'),
    ]
