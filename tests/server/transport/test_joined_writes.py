"""Writes of a connection in one step of the event loop are sent together, in order, and before a close."""

import asyncio

from typing_extensions import override

from holdfast.server.transport.joined_writes import JOINED_BYTES_MAX, JoinedWrites


class Recorded(asyncio.Transport):
    """A transport that records what reaches it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes | str] = []
        self.is_lost = False

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))

    @override
    def close(self) -> None:
        self.sent.append("closed")

    @override
    def abort(self) -> None:
        self.sent.append("aborted")

    @override
    def is_closing(self) -> bool:
        return self.is_lost

    @override
    def get_write_buffer_size(self) -> int:
        return 5


async def test_one_step_is_one_write() -> None:
    recorded = Recorded()
    joined = JoinedWrites(recorded, asyncio.get_running_loop())
    joined.write(b"head ")
    joined.write(b"body")
    assert recorded.sent == []
    assert joined.get_write_buffer_size() == 14
    await asyncio.sleep(0)
    assert recorded.sent == [b"head body"]
    joined.write(b"next")
    await asyncio.sleep(0)
    assert recorded.sent == [b"head body", b"next"]


async def test_what_is_held_is_sent_before_the_close() -> None:
    recorded = Recorded()
    joined = JoinedWrites(recorded, asyncio.get_running_loop())
    joined.write(b"bye")
    joined.close()
    await asyncio.sleep(0)
    assert recorded.sent == [b"bye", "closed"]


async def test_an_abort_sends_nothing_more() -> None:
    recorded = Recorded()
    joined = JoinedWrites(recorded, asyncio.get_running_loop())
    joined.write(b"unread")
    joined.abort()
    await asyncio.sleep(0)
    assert recorded.sent == ["aborted"]


async def test_nothing_is_written_to_a_connection_that_was_lost_meanwhile() -> None:
    """The loop's own transport raises an error for it."""
    recorded = Recorded()
    joined = JoinedWrites(recorded, asyncio.get_running_loop())
    joined.write(b"unread")
    recorded.is_lost = True
    await asyncio.sleep(0)
    assert recorded.sent == []


async def test_a_long_response_does_not_pile_up_within_one_step() -> None:
    recorded = Recorded()
    joined = JoinedWrites(recorded, asyncio.get_running_loop())
    for _ in range(5):
        joined.write(bytes(JOINED_BYTES_MAX // 2))
    assert joined.get_write_buffer_size() == 5 + JOINED_BYTES_MAX
    assert [len(sent) for sent in recorded.sent] == [JOINED_BYTES_MAX // 2 * 3]
    await asyncio.sleep(0)
    assert sum(len(sent) for sent in recorded.sent) == JOINED_BYTES_MAX // 2 * 5
