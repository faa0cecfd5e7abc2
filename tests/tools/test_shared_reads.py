"""Blocking reads that callers share: each gets an answer that was read after it asked."""

import asyncio
import threading

import pytest

from holdfast.tools.offload import SharedReads


class Reading:
    """A read that counts, and waits until it is let go."""

    def __init__(self) -> None:
        self.count = 0
        self.begun = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.go = threading.Semaphore(0)

    def __call__(self) -> int:
        self.count += 1
        number = self.count
        self._loop.call_soon_threadsafe(self.begun.set)
        self.go.acquire()
        return number


async def test_those_who_ask_together_share_one_read() -> None:
    """64 runs that begin at once look at their workspace once."""
    reads, read = SharedReads(), Reading()
    read.go.release(64)
    assert await asyncio.gather(*(reads.shared("q", read) for _ in range(64))) == [1] * 64


async def test_who_asks_during_a_read_gets_the_next_one() -> None:
    """The files may have changed between the first read and their question."""
    reads, read = SharedReads(), Reading()
    first = asyncio.create_task(reads.shared("q", read))
    await read.begun.wait()
    late = [asyncio.create_task(reads.shared("q", read)) for _ in range(3)]
    await asyncio.sleep(0)
    read.go.release(2)
    assert await first == 1
    assert await asyncio.gather(*late) == [2, 2, 2]


async def test_other_questions_have_other_answers() -> None:
    """They don't wait for each other, either."""
    reads, read = SharedReads(), Reading()
    stuck = asyncio.create_task(reads.shared("slow", read))
    await read.begun.wait()
    assert await reads.shared("quick", lambda: "at once") == "at once"
    read.go.release()
    assert await stuck == 1


async def test_an_error_is_everybodys_and_the_next_read_is_tried() -> None:
    """An error says nothing about later."""

    def fails() -> int:
        raise OSError("gone")

    reads = SharedReads()
    errors = await asyncio.gather(*(reads.shared("q", fails) for _ in range(2)), return_exceptions=True)
    assert [str(error) for error in errors] == ["gone", "gone"]
    assert await reads.shared("q", lambda: 1) == 1


async def test_who_leaves_takes_the_answer_from_nobody() -> None:
    """P10: a stopped run doesn't stop the others."""
    reads, read = SharedReads(), Reading()
    leaving, staying = (asyncio.create_task(reads.shared("q", read)) for _ in range(2))
    await read.begun.wait()
    leaving.cancel()
    read.go.release()
    assert await staying == 1
    with pytest.raises(asyncio.CancelledError):
        await leaving
