"""Calls with the real voice of a run: what is said is on the journal; a journal that fails ends the call."""

import asyncio
from typing import Any

import pytest

from holdfast import events as e
from holdfast.agent.runlog import RunLog, Unwritable
from holdfast.chaos import ChaosServer, Drop, Gate, Say, SayWords, Wait
from holdfast.folds import session, transcript
from holdfast.interfaces.journal import FenceLost
from holdfast.interfaces.model import Answer
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.targets import Wire
from side_by_side import on_each_wire
from stores import MemoryStore

from .calling import line_to, nothing_left, request_of, target_of


async def begun(store: MemoryStore) -> None:
    await store.append(
        "s1",
        [
            e.SessionCreated(at_ms=1, epoch="x"),
            e.MessageAccepted(at_ms=1, message_id="m", text="hi"),
            e.RunQueued(at_ms=1, run_id="r1", message_id="m"),
        ],
    )
    started = [
        e.MessageDispatched(at_ms=1, run_id="r1", message_id="m"),
        e.RunStarted(at_ms=1, run_id="r1"),
    ]
    await store.append_run("s1", started, fence=await store.claim("s1"))


@on_each_wire
async def test_what_a_call_said_is_on_the_journal_and_folds_to_the_clean_answer(wire: Wire) -> None:
    """Scenario 6, P1, P4."""
    words = " ".join(str(number) for number in range(200))
    async with ChaosServer([Say("0 1 and then"), Drop()], [SayWords(words)]) as server:
        target = target_of(server, wire)
        async with line_to(target) as line:
            await begun(line.store)
            run = ("s1", "r1")
            async with RunLog(line.store, line.clock, run=run, fence=await line.store.claim("s1")) as log:
                assert isinstance(await line.calls.answer(request_of(), log, turn=1), Answer)
                await log.flush()
            pairs = [(record.seq, record.event) for record in await line.store.read("s1")]
            session.fold(pairs)
            assert transcript.output(transcript.fold(pairs), "r1") == words


class ConnectionBroken(MemoryStore):
    """A store with a bug: it fails before it has anything to wait for."""

    def append_run(self, *_: object, **__: object) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise ValueError("no such column")


async def test_a_store_with_a_bug_keeps_nobody_waiting_for_what_was_said() -> None:
    """P6: whoever waits hears of it; nothing hangs."""
    store, clock = ConnectionBroken(), SystemClock()
    async with RunLog(store, clock, run=("s1", "r1"), fence=await store.claim("s1")) as log:
        log.say(1, "hello")
        with pytest.raises(Unwritable, match="no such column"):
            await log.flush()


async def test_a_journal_that_is_lost_ends_the_call_and_closes_the_connection(wire: Wire) -> None:
    """P5, P6: another owner took over; this one must not go on."""
    gate, disk = Gate(), MemoryDisk()
    async with ChaosServer([Say("hel"), Wait(gate), Say("x" * 1000, chunk_chars=1, pace_s=0.01)]) as server:
        target = target_of(server, wire)
        async with line_to(target, disk=disk) as line:
            await begun(line.store)
            run = ("s1", "r1")
            async with RunLog(line.store, line.clock, run=run, fence=await line.store.claim("s1")) as log:
                task = asyncio.create_task(line.calls.answer(request_of(), log, turn=1))
                await gate.reached()
                MemoryStore(disk)
                gate.open()
                with pytest.raises(FenceLost):
                    await task
                assert await server.seen.until_closed(1) in {"peer", "peer reset"}
            await nothing_left()
