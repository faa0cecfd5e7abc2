"""What is put on a channel's log in the moment in which its work is done is worked on, too."""

import asyncio

from agent.world import process
from features.channels.lab import LOG, deps_of
from features.channels.samples import DIALECT
from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.decisions.deliveries import Arrived, CannotTell, ProbeResult, SendResult
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.events import (
    ChannelUpdateLogged,
)
from holdfast.features.channels.outbox import OutboxSender
from holdfast.features.channels.session_watcher import SessionWatcher
from holdfast.folds.outbox import OutboxEntry
from holdfast.interfaces.system_clock import SystemClock
from holdfast.values import CHANNEL
from stores import MemoryStore

CREATED = e.SessionCreated(at_ms=1, epoch="e", source=CHANNEL, title="tg")
TIMES = 60  # who wakes first of those that wait for the log is chance


class _Carrier:
    """Takes everything at once."""

    async def send(self, delivery: OutboxEntry, *, is_marked: bool) -> SendResult:
        del delivery, is_marked
        return Arrived("7")

    async def probe(self, delivery: OutboxEntry) -> ProbeResult:
        del delivery
        return CannotTell()


async def test_what_is_intended_as_the_queue_of_a_chat_empties_is_sent() -> None:
    """P14: an answer right after its preview doesn't wait until something else happens."""
    store = MemoryStore()
    await store.append(LOG, [CREATED])
    log = ChannelLog(store, LOG, await store.claim(LOG))
    sending = asyncio.create_task(OutboxSender(log, _Carrier(), store=store, clock=SystemClock()).run())
    for number in range(TIMES):
        await log.append(e.DeliveryIntended(at_ms=1, chat="1", message=f"m{number}", body="hi"))
        await log.until(lambda: not log.state.outbox.queues)
    sending.cancel()
    await asyncio.wait([sending])
    assert [one.state for one in log.state.outbox.deliveries.values()] == ["confirmed"] * TIMES


async def test_a_message_that_is_taken_as_the_last_of_its_session_is_settled_is_watched() -> None:
    """P14: the next message has its answer, too."""
    async with ChaosServer() as chaos, process(chaos) as world:
        await world.store.append(LOG, [CREATED])
        await world.store.append("s", [e.SessionCreated(at_ms=1, epoch="e")])
        log = ChannelLog(world.store, LOG, await world.store.claim(LOG))
        watching = asyncio.create_task(SessionWatcher(deps_of(world), log, text_format=DIALECT).run())
        for number in range(TIMES):
            taken = ChannelUpdateLogged(
                at_ms=1,
                key=f"k{number}",
                became="message",
                chat="1",
                user="1",
                session_id="s",
                message_id=f"m{number}",
            )
            await log.append(taken)
            await log.until(lambda: not log.state.awaited)
        watching.cancel()
        await asyncio.wait([watching])
