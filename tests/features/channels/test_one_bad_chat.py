"""What goes wrong in one chat stays there: others are served, and its own people are told."""

import asyncio
from collections.abc import Sequence

import pytest
from typing_extensions import override

from agent.world import World, process
from fakes.telegram import FakeTelegram
from features.channels.lab import LOG, ME, channel, deps_of, echo, options_for, state_of, until
from holdfast import events as e
from holdfast.chaos import ChaosServer, Hang, Say
from holdfast.decisions.deliveries import Arrived, CannotTell, ProbeResult, SendResult
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.chat_commands import NEW
from holdfast.features.channels.events import (
    ChannelMessageClosed,
    ChannelUpdateLogged,
)
from holdfast.features.channels.outbox import OutboxSender, SendingOptions
from holdfast.features.channels.owner import loss_notices
from holdfast.features.channels.session_watcher import SessionWatcher
from holdfast.features.channels.store_errors import BROKEN
from holdfast.features.channels.telegram.carrier import DIALECT
from holdfast.folds.outbox import OutboxEntry
from holdfast.interfaces.journal import IfSessionKnown, Record, StoreDamaged, StoreUnreachable
from holdfast.racing import wait_through_cancel
from holdfast.values import CHANNEL
from stores import MemoryStore

OTHER = 43


class PartlyDamaged(MemoryStore):
    """Some logs can't be read any more."""

    def __init__(self) -> None:
        super().__init__()
        self.damaged: set[str] = set()

    @override
    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        if session_id in self.damaged:
            raise StoreDamaged(f"the log of {session_id} is damaged")
        return await super().read(session_id, after=after, limit=limit)


class Stumbling:
    """A carrier with a bug: it raises for one chat."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.sent: list[str] = []

    async def send(self, delivery: OutboxEntry, *, is_marked: bool) -> SendResult:
        del is_marked
        if delivery.intended.message == "a1":
            raise self._error
        self.sent.append(delivery.intended.body)
        return Arrived("7")

    async def probe(self, delivery: OutboxEntry) -> ProbeResult:
        del delivery
        return CannotTell()


async def sender_for(world: World, carrier: Stumbling) -> OutboxSender:
    """An outbox with a message to each of two chats."""
    created = e.SessionCreated(at_ms=1, epoch="e", source=CHANNEL, title="tg")
    await world.store.append(LOG, [created])
    for chat in ("1", "2"):
        intended = e.DeliveryIntended(at_ms=1, chat=chat, message=f"a{chat}", body=f"to {chat}")
        await world.store.append(LOG, [intended], when=[IfSessionKnown()])
    log = ChannelLog(world.store, LOG, await world.store.claim(LOG))
    await log.catch_up()
    options = SendingOptions(losses=loss_notices)
    return OutboxSender(log, carrier, store=world.store, clock=world.clock, options=options)


async def test_a_delivery_that_cannot_be_sent_delays_no_other_and_is_told_of() -> None:
    """P14: never silently not at all; and one chat delays no other."""
    async with ChaosServer() as chaos, process(chaos) as world:
        carrier = Stumbling(ValueError("Forbidden control character detected in headers"))
        sender = await sender_for(world, carrier)
        sending = asyncio.create_task(sender.run())
        await world.until(LOG, e.DeliveryConfirmed, times=2)
        sending.cancel()
        await wait_through_cancel(sending)
        assert "to 2" in carrier.sent
        assert any("was rejected here" in one for one in carrier.sent), "its chat is told"


async def test_trouble_of_the_store_is_not_taken_for_a_bug() -> None:
    """P14: what the store interrupts is tried again, not given up."""
    async with ChaosServer() as chaos, process(chaos) as world:
        sender = await sender_for(world, Stumbling(StoreUnreachable("away")))
        with pytest.raises(BaseExceptionGroup):
            await sender.run()
        state = await state_of(world)
    assert not any(one.state == "rejected" for one in state.outbox.deliveries.values())


async def test_a_conversation_whose_log_is_damaged_is_told_so_and_others_go_on() -> None:
    """P14: one chat delays no other, and /new helps its own."""
    store = PartlyDamaged()
    both = frozenset({str(ME), str(OTHER)})
    async with (
        FakeTelegram() as telegram,
        ChaosServer(choose=echo) as chaos,
        process(chaos, store=store) as world,
        channel(world, options_for(telegram, allow=both)),
    ):
        mine, others = telegram.world.chat(ME).texts, telegram.world.chat(OTHER).texts
        telegram.world.say(ME, "hi")
        await until(telegram, lambda: mine() == ["re: hi"])
        store.damaged.update((await state_of(world)).chats)
        telegram.world.say(ME, "again")
        await until(telegram, lambda: len(mine()) == 2)
        telegram.world.say(OTHER, "hi")
        await until(telegram, lambda: others() == ["re: hi"])
        telegram.world.say(ME, "/new")
        telegram.world.say(ME, "more")
        await until(telegram, lambda: len(mine()) == 4)
        assert mine() == ["re: hi", BROKEN.replace("`", ""), NEW, "re: more"]


async def test_a_log_that_is_damaged_while_its_answer_is_awaited_is_given_up_aloud() -> None:
    """P14: whoever waits is told; nothing is waited for in silence."""
    store = PartlyDamaged()
    async with FakeTelegram() as telegram, ChaosServer([Say("so "), Hang()]) as chaos:
        async with process(chaos, store=store) as world, channel(world, options_for(telegram)):
            telegram.world.say(ME, "hi")
            await world.until(LOG, ChannelUpdateLogged)
            store.damaged.update((await state_of(world)).chats)
        watched = SessionWatcher(deps_of(world), await owned_log(store), text_format=DIALECT)
        watching = asyncio.create_task(watched.run())
        records = await world.until(LOG, ChannelMessageClosed)
        watching.cancel()
        await wait_through_cancel(watching)
    told = [one.event for one in records if isinstance(one.event, e.DeliveryIntended)]
    assert [(one.chat, one.body) for one in told] == [(str(ME), BROKEN)]


async def owned_log(store: MemoryStore) -> ChannelLog:
    log = ChannelLog(store, LOG, await store.claim(LOG))
    await log.catch_up()
    return log
