"""Deltas wait for company while many runs talk; nothing else waits, nor anyone for those who cannot come."""

import asyncio
from collections import deque

from holdfast.interfaces import Fence, Record
from holdfast.journal.follow import Tails
from holdfast.journal.handover import BUSY_JOBS, Handover
from holdfast.journal.jobs import Append, Call, Job
from holdfast.journal.known import Known
from journal.labs import until
from journal.sample import AT_MS, delta, ended

LONG_S = 3_600.0


async def _nothing(*_: object) -> list[Record]:
    return []


def append_of(session_id: str, *, last: bool = False) -> Append:
    event = ended("r1", at_ms=AT_MS) if last else delta("x")
    records = [Record(session_id, 0, body=b"{}", event=event)]
    future = asyncio.get_running_loop().create_future()
    return Append(future, session_id, records, Tails(_nothing), Known(), Fence(1), (), None)


def busy_with(*sessions: str) -> Handover:
    """Many jobs of these sessions have just been committed."""
    handover = Handover(linger_s=LONG_S, monotonic_s=lambda: 1.0)
    handover.committed([append_of(session_id) for session_id in sessions] * BUSY_JOBS)
    return handover


async def taken_while(handover: Handover, *jobs: Job) -> deque[Job]:
    """What one commit takes: a delta of s1, and what comes while it waits."""
    backlog: deque[Job] = deque()
    handover.put([append_of("s1")])
    taking = asyncio.create_task(asyncio.to_thread(handover.take, backlog))
    await until(lambda: handover.is_lingering)
    for job in jobs:
        handover.put([job])
    assert await taking
    return backlog


async def test_without_many_others_a_delta_waits_for_nobody() -> None:
    backlog: deque[Job] = deque()
    handover = Handover(linger_s=LONG_S, monotonic_s=lambda: 1.0)
    handover.committed([append_of("s1")])
    handover.put([append_of("s1")])
    assert await asyncio.to_thread(handover.take, backlog)
    assert len(backlog) == 1


async def test_whatever_is_no_delta_ends_the_wait_and_is_never_delayed_itself() -> None:
    """P10: a busy run keeps nobody waiting."""
    for urgent in (append_of("s2", last=True), Call(asyncio.get_running_loop().create_future(), _nothing)):
        taken = await taken_while(busy_with("s1", "s2", "s3"), urgent)
        assert taken[-1] is urgent
        backlog: deque[Job] = deque()
        handover = busy_with("s1", "s2", "s3")
        handover.put([urgent])
        assert await asyncio.to_thread(handover.take, backlog)


async def test_the_wait_is_over_when_every_run_that_talks_is_here() -> None:
    taken = await taken_while(busy_with("s1", "s2", "s3"), append_of("s2"), append_of("s3"))
    assert len(taken) == 3


async def test_the_end_ends_the_wait_and_loses_nothing() -> None:
    backlog: deque[Job] = deque()
    handover = busy_with("s1", "s2")
    handover.put([append_of("s1")])
    taking = asyncio.create_task(asyncio.to_thread(handover.take, backlog))
    await until(lambda: handover.is_lingering)
    handover.end()
    assert not await taking
    assert len(backlog) == 1
