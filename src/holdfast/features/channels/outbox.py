"""Sends an outbox's deliveries: in order per chat, concurrently across chats."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct, field

from holdfast import events as e
from holdfast.agent.calls import LEASE_LOOK_S, LEASE_S_MIN
from holdfast.decisions.deliveries import (
    CannotTell,
    DidNotArrive,
    FoundThere,
    NotAccepted,
    NotThere,
    ProbeResult,
    RecordFirst,
    SendLater,
    SendNow,
    SendResult,
    next_step,
    record_of,
)
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.chat_locks import ChatLocks
from holdfast.features.channels.store_errors import is_transient
from holdfast.folds.outbox import OutboxEntry
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Store
from holdfast.racing import race

_log = logging.getLogger(__name__)
AT_ONCE_MAX = 32  # concurrent sends, excluding postponed ones


class Carrier(Protocol):
    """Sends deliveries to one platform. Returns the outcome of each, and never raises.

    A delivery's intent is a new message, an edit (`edits`) or a removal (`removes`). Editing a missing
    message is `EditRefused` for an answer, which is then resent as new, and `NotAccepted` for a card.
    Removing a missing message is `Arrived`.
    """

    async def send(self, delivery: OutboxEntry, *, is_marked: bool) -> SendResult:
        """Send it once. A marked delivery says that it may be a repeat."""
        ...

    async def probe(self, delivery: OutboxEntry) -> ProbeResult:
        """Look for a message of an earlier attempt, by the key of the delivery."""
        ...


# Returns the notice for a chat about a delivery's outcome.
Losses: TypeAlias = Callable[[OutboxEntry, e.Event, int], Sequence[e.Event]]


def no_notices(delivery: OutboxEntry, record: e.Event, now_ms: int) -> Sequence[e.Event]:
    """Send no notice: programs aren't notified about lost results."""
    del delivery, record, now_ms
    return ()


class SendingOptions(Struct, frozen=True):
    """How an outbox sends: shared chat locks, when to check for earlier attempts, and loss notices."""

    locks: ChatLocks = field(default_factory=ChatLocks)
    settles_s: float = 0.0  # how long an unanswered request can still take effect
    losses: Losses = no_notices


class OutboxSender:
    """The owner of an outbox: logs the attempt, sends, and logs the outcome."""

    def __init__(
        self,
        log: ChannelLog,
        carrier: Carrier,
        *,
        store: Store,
        clock: Clock,
        options: SendingOptions | None = None,
    ) -> None:
        self._options = options or SendingOptions()
        self._channel = log
        self._carrier = carrier
        self._store = store
        self._clock = clock
        self._sending = asyncio.Semaphore(AT_ONCE_MAX)
        self._chats: set[str] = set()  # chats with an active sender

    async def run(self) -> None:
        """Send until cancelled. Store errors propagate, and the owner restarts."""
        outbox = self._channel.state.outbox
        async with asyncio.TaskGroup() as tasks:
            while True:
                for chat in [chat for chat in outbox.queues if chat not in self._chats]:
                    self._chats.add(chat)
                    tasks.create_task(self._serve(chat), name=f"send to {chat}")
                await self._channel.until(lambda: any(chat not in self._chats for chat in outbox.queues))

    async def _serve(self, chat: str) -> None:
        try:
            await self._empty(chat)
        finally:
            # Immediately when nothing is left: an intent that arrived before a task callback would wait here
            # until the next event.
            self._chats.discard(chat)

    async def _empty(self, chat: str) -> None:
        """Send all deliveries of one chat."""
        outbox = self._channel.state.outbox
        while (delivery := outbox.head(chat)) is not None:
            match next_step(outbox, delivery, self._clock.now_ms()):
                case RecordFirst(event=event):
                    await self._channel.append(event, *self._about(delivery, event))
                case SendLater(at_ms=at_ms):
                    await self._wait(delivery, at_ms)
                case SendNow(is_marked=True) if self._settles_at(delivery) > self._clock.now_ms():
                    await self._wait(delivery, self._settles_at(delivery))
                case SendNow() as now:
                    async with self._options.locks.of(chat), self._sending:
                        await self._send(delivery, now)

    def _about(self, delivery: OutboxEntry, record: e.Event) -> Sequence[e.Event]:
        """Return the notices that follow from a record; none for a closed chat."""
        is_closed = delivery.intended.chat in self._channel.state.outbox.closed_chats
        return [] if is_closed else self._options.losses(delivery, record, self._clock.now_ms())

    def _settles_at(self, delivery: OutboxEntry) -> int:
        """Return when the outcome of an earlier attempt can be checked, if the platform supports it."""
        return delivery.attempted_ms + int(1000 * self._options.settles_s)

    async def _wait(self, delivery: OutboxEntry, at_ms: int) -> None:
        """Wait until the time, or until the chat is closed or no longer has to wait."""
        chat, outbox = delivery.intended.chat, self._channel.state.outbox
        wait_s = max(0.0, (at_ms - self._clock.now_ms()) / 1000)
        until_ms = delivery.until_ms
        changed = asyncio.create_task(
            self._channel.until(lambda: chat in outbox.closed_chats or delivery.until_ms < until_ms)
        )
        await race(changed, asyncio.create_task(self._clock.sleep_s(wait_s)))

    async def _send(self, delivery: OutboxEntry, now: SendNow) -> None:
        is_marked, is_absent = now.is_marked, False
        if is_marked:
            match await self._carrier.probe(delivery):
                case FoundThere(platform_id=platform_id):
                    await self._channel.append(self._found(delivery, platform_id))
                    return
                case DidNotArrive() as failed:
                    await self._channel.append(record_of(delivery, failed, self._clock.now_ms()))
                    return
                case NotThere():
                    is_marked, is_absent = False, True
                case CannotTell():
                    pass
        attempted = e.DeliveryAttempted(
            at_ms=self._clock.now_ms(),
            delivery=delivery.key,
            nth=now.nth,
            marked=is_marked,
            absent=is_absent,
        )
        await self._channel.append(attempted)
        await self._until_leased()
        result = await self._sent(delivery, is_marked=is_marked)
        record = record_of(delivery, result, self._clock.now_ms())
        if not isinstance(record, e.DeliveryConfirmed):
            _log.info("delivery %s to chat %s: %s", delivery.key, delivery.intended.chat, record.why)
        await self._channel.append(record, *self._about(delivery, record))

    async def _sent(self, delivery: OutboxEntry, *, is_marked: bool) -> SendResult:
        """Send and return the outcome. A bug in a carrier fails only this delivery."""
        try:
            return await self._carrier.send(delivery, is_marked=is_marked)
        except Exception as error:
            if is_transient(error):
                raise
            _log.exception("delivery %s to chat %s can't be sent", delivery.key, delivery.intended.chat)
            return NotAccepted(f"an internal error occurred while sending ({type(error).__name__})")

    def _found(self, delivery: OutboxEntry, platform_id: str) -> e.DeliveryConfirmed:
        return e.DeliveryConfirmed(
            at_ms=self._clock.now_ms(), delivery=delivery.key, platform_id=platform_id, found=True
        )

    async def _until_leased(self) -> None:
        """Wait while another node might consider this one dead and send the same delivery."""
        while self._store.node.lease_left_s < LEASE_S_MIN:
            await self._clock.sleep_s(LEASE_LOOK_S)
