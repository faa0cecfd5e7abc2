"""A reader that asks for a pace: fewer and larger pieces, the same frames."""

import asyncio
from collections.abc import MutableMapping, Sequence
from typing import Any

from holdfast.chaos import ChaosServer, SayWords
from holdfast.server.options import Limits
from holdfast.server.streams.stream import HEARTBEAT, EventStream, Streams
from serving import Frame, limited, served, target_of

LONG_S = 3600.0
SCOPE: dict[str, Any] = {"type": "http"}


class Gathering:
    """A feed that gives what has gathered since it was last asked; None after the last."""

    def __init__(self) -> None:
        self.asked = 0
        self._frames: list[bytes] = []
        self._more = asyncio.Event()
        self._over = False

    def put(self, *frames: bytes) -> None:
        self._frames += frames
        self._more.set()

    def close(self) -> None:
        self._over = True
        self._more.set()

    async def more(self) -> Sequence[bytes] | None:
        self.asked += 1
        await self._more.wait()
        self._more.clear()
        frames, self._frames = self._frames, []
        return frames or (None if self._over else ())

    def wake(self) -> None:
        self._more.set()

    def ephemeral_frames(self, silent_s: float) -> Sequence[bytes]:
        del silent_s
        return ()

    def next_check_s(self, silent_s: float) -> float | None:
        del silent_s


class Reader:
    """The other side of a stream."""

    def __init__(self, stream: EventStream) -> None:
        self.pieces: list[bytes] = []
        self._came = asyncio.Event()
        self.task = asyncio.create_task(stream(SCOPE, self._receive, self._send))

    async def _receive(self) -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if body := message.get("body"):
            self.pieces.append(body)
            self._came.set()

    async def until(self, count: int) -> None:
        while len(self.pieces) < count:
            self._came.clear()
            await self._came.wait()


async def test_what_comes_within_the_pace_is_one_piece() -> None:
    feed = Gathering()
    reader = Reader(EventStream(feed, Streams(), limits=Limits(), pace_s=0.2))
    feed.put(b"first\n\n")
    await reader.until(1)
    feed.put(b"second\n\n")
    feed.put(b"third\n\n")
    await reader.until(2)
    assert reader.pieces == [b"first\n\n", b"second\n\nthird\n\n"]
    feed.close()
    await reader.task


async def test_a_stream_that_rests_ends_at_once_and_asks_for_nothing_meanwhile() -> None:
    """P10: a server that goes waits for nobody's pace."""
    feed = Gathering()
    streams = Streams()
    reader = Reader(EventStream(feed, streams, limits=Limits(), pace_s=LONG_S))
    feed.put(b"first\n\n")
    await reader.until(1)
    feed.put(b"second\n\n")
    await asyncio.sleep(0)
    assert feed.asked == 1
    streams.end()
    await reader.task
    assert reader.pieces == [b"first\n\n"]


async def test_a_paced_reader_gets_the_same_log() -> None:
    """P7."""
    async with ChaosServer([SayWords("word " * 50)]) as chaos, served(target_of(chaos)) as server:
        run_id = await server.start(session_id="s")
        await server.all_frames(run_id)
        _, log = await server.get("/api/sessions/s/events?limit=1000")
        seen: list[Frame] = []
        async for frame in server.follow("/api/sessions/s/events?pace_ms=5"):
            seen += [frame] if frame.id else []
            if len(seen) == len(log["events"]):
                break
        assert [frame.data for frame in seen] == log["events"]
        assert (await server.call("GET", "/api/sessions/s/events?pace_ms=x")).status == 400


async def test_a_stream_on_which_nothing_happens_says_so_at_once() -> None:
    """Firefox gives an answer to the page only once something of its body is there."""
    async with (
        ChaosServer() as chaos,
        served(target_of(chaos), setting=limited(heartbeat_s=LONG_S)) as server,
        server.http.get(f"{server.url}/api/events") as answer,
    ):
        assert await answer.content.readuntil(b"\n\n") == HEARTBEAT
