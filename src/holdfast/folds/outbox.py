"""The outbox of a log: deliveries in order per chat, with their status."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from holdfast import events as e

DeliveryState: TypeAlias = Literal[
    "intended", "attempted", "postponed", "unknown", "confirmed", "rejected", "given_up", "moot"
]
OPEN: frozenset[DeliveryState] = frozenset({"intended", "attempted", "postponed", "unknown"})
UNKNOWNS_IF_ABSENT = 2  # so many are counted, if the platform says that nothing arrived
SETTLED_MAX = 20_000  # how many settled deliveries are remembered, to know repeats and to edit messages


class OutboxEntry(Struct):
    """One delivery to a platform, from its intent to its outcome.

    `may_have_arrived` means that an attempt is unconfirmed, so that another one has to be marked.
    """

    intended: e.DeliveryIntended
    seq: int
    state: DeliveryState = "intended"
    attempts: int = 0
    may_have_arrived: bool = False
    was_marked: bool = False
    is_plain: bool = False  # the platform refused its formatting
    is_anew: bool = False  # the message can't be edited, so it's sent as a new one
    attempted_ms: int = 0
    unknowns: int = 0
    platform_id: str = ""
    why: str = ""
    until_ms: int = 0
    settled_seq: int = 0

    @property
    def is_new(self) -> bool:
        """Return whether it's a new message; edits and removals are safe to repeat."""
        return not self.intended.edits or self.is_anew

    @property
    def key(self) -> str:
        """Return its unique key."""
        return self.intended.key

    @property
    def is_open(self) -> bool:
        """Whether something is still to be done about it."""
        return self.state in OPEN


class Outbox(Struct):
    """All open deliveries and the newest settled ones; `closed_chats` take nothing any more."""

    deliveries: dict[str, OutboxEntry] = field(default_factory=dict[str, OutboxEntry])
    queues: dict[str, list[str]] = field(default_factory=dict[str, list[str]])  # open keys by chat, in order
    settled: dict[str, None] = field(default_factory=dict[str, None])  # keys, the oldest first
    closed_chats: dict[str, str] = field(default_factory=dict[str, str])  # chat -> why
    newest: dict[str, int] = field(default_factory=dict[str, int])  # chat -> where it got its last message

    def is_last(self, delivery: OutboxEntry) -> bool:
        """Whether this is the last message in its chat, as far as the log knows."""
        return self.newest.get(delivery.intended.chat) == delivery.settled_seq

    def head(self, chat: str) -> OutboxEntry | None:
        """The delivery whose turn it is in this chat."""
        queue = self.queues.get(chat)
        return self.deliveries[queue[0]] if queue else None

    def open(self) -> Iterator[OutboxEntry]:
        """All deliveries that are not settled, by chat and in order."""
        for queue in self.queues.values():
            for key in queue:
                yield self.deliveries[key]


def apply_to_outbox(outbox: Outbox, seq: int, event: e.Event) -> None:
    """Apply an event of the log; those that aren't about deliveries change nothing."""
    step = _STEPS.get(type(event))
    if step is not None:
        step(outbox, seq, event)


def note_written(outbox: Outbox, seq: int, chat: str) -> None:
    """Someone wrote in the chat: their message is the last one there, and the platform takes ours again."""
    outbox.closed_chats.pop(chat, None)
    outbox.newest[chat] = seq


def _intended(outbox: Outbox, seq: int, event: e.DeliveryIntended) -> None:
    if event.key not in outbox.deliveries:
        outbox.deliveries[event.key] = OutboxEntry(event, seq)
        outbox.queues.setdefault(event.chat, []).append(event.key)


def _attempted(outbox: Outbox, _: int, event: e.DeliveryAttempted) -> None:
    if (delivery := _open(outbox, event.delivery)) is not None:
        delivery.state = "attempted"
        delivery.attempts, delivery.attempted_ms = event.nth, event.at_ms
        delivery.was_marked = event.marked
        if event.absent:  # no earlier attempt arrived, so it isn't given up; its pauses don't begin anew
            delivery.may_have_arrived = False
            delivery.unknowns = min(delivery.unknowns, UNKNOWNS_IF_ABSENT)


def _confirmed(outbox: Outbox, seq: int, event: e.DeliveryConfirmed) -> None:
    if (delivery := _open(outbox, event.delivery)) is not None:
        delivery.platform_id, delivery.settled_seq = event.platform_id, seq
        _settle(outbox, delivery, "confirmed")
        if delivery.is_new:
            outbox.newest[delivery.intended.chat] = seq


def _postponed(outbox: Outbox, _: int, event: e.DeliveryPostponed) -> None:
    if (delivery := _open(outbox, event.delivery)) is not None:
        delivery.state = "postponed"
        delivery.why, delivery.until_ms = event.why, event.until_ms
        delivery.is_plain |= event.plain
        delivery.is_anew |= event.anew


def _rejected(outbox: Outbox, _: int, event: e.DeliveryRejected) -> None:
    if (delivery := _open(outbox, event.delivery)) is not None:
        delivery.why = event.why
        _settle(outbox, delivery, "moot" if event.moot else "rejected")
        if event.ends_chat:
            outbox.closed_chats[delivery.intended.chat] = event.why


def _unknown(outbox: Outbox, _: int, event: e.DeliveryUnknown) -> None:
    if (delivery := _open(outbox, event.delivery)) is None:
        return
    delivery.why, delivery.until_ms = event.why, event.until_ms
    delivery.may_have_arrived = True
    delivery.unknowns += 1
    if event.given_up:
        _settle(outbox, delivery, "given_up")
    else:
        delivery.state = "unknown"


def _open(outbox: Outbox, key: str) -> OutboxEntry | None:
    delivery = outbox.deliveries.get(key)
    return delivery if delivery is not None and delivery.is_open else None


def _settle(outbox: Outbox, delivery: OutboxEntry, state: DeliveryState) -> None:
    delivery.state = state
    queue = outbox.queues[delivery.intended.chat]
    queue.remove(delivery.key)
    if not queue:
        del outbox.queues[delivery.intended.chat]
    outbox.settled[delivery.key] = None
    if len(outbox.settled) > SETTLED_MAX:
        oldest = next(iter(outbox.settled))
        del outbox.settled[oldest], outbox.deliveries[oldest]


_STEPS: Mapping[type[e.Event], Callable[[Outbox, int, Any], None]] = MappingProxyType(
    {
        e.DeliveryIntended: _intended,
        e.DeliveryAttempted: _attempted,
        e.DeliveryConfirmed: _confirmed,
        e.DeliveryPostponed: _postponed,
        e.DeliveryRejected: _rejected,
        e.DeliveryUnknown: _unknown,
    }
)
