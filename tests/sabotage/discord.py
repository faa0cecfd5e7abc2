"""Wrong parts of the Discord channel: each breaks a promise in one small way."""

from typing_extensions import override

from agent.world import process
from fakes.discord import Accept, FakeDiscord, ResetConnection
from features.channels.discord.lab import LOG, ME
from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.decisions.deliveries import Arrived, MayHaveArrived
from holdfast.features.channels.discord.api import open_discord
from holdfast.features.channels.discord.carrier import DiscordCarrier, Progress
from holdfast.folds.outbox import Outbox, OutboxEntry
from holdfast.interfaces.system_clock import SystemClock
from sabotage import Sabotage


class MovesFirst(Progress):
    """Moves its sequence when an event comes in, whatever becomes of it."""

    @override
    def begin(self, seq: int, parts: int = 1) -> None:
        super().begin(seq, 0)


async def check_the_sequence_moves_only_past_what_is_on_the_log(kind: type[Progress]) -> None:
    """A process that dies while it takes an event is told of it again."""
    progress = kind("session", "url", 1)
    progress.begin(2)
    progress.begin(3)
    progress.end(3)
    assert progress.point.seq == 1
    progress.end(2)
    assert progress.point.seq == 3


class FreshNonces(DiscordCarrier):
    """Has another nonce for each attempt."""

    @override
    def _nonce(self, delivery: OutboxEntry) -> str:
        delivery.attempts += 1
        return f"{super()._nonce(delivery)[:-2]}{delivery.attempts}"


async def check_two_attempts_of_a_delivery_are_one_message(kind: type[DiscordCarrier]) -> None:
    """The answer to the first attempt is lost, and the second one finds the message."""
    async with (
        FakeDiscord() as discord,
        ChaosServer() as chaos,
        process(chaos) as world,
        open_discord(token=discord.token, base_url=discord.url, clock=SystemClock()) as api,
    ):
        chat = discord.world.direct(ME)
        discord.scripts.add("createMessage", [Accept(), ResetConnection()])
        carrier = kind(api, world.supervisor, Outbox(), world.store, log_id=LOG)
        note = e.DeliveryIntended(at_ms=1, chat=chat.channel_id, message="note", body="hello")
        delivery = OutboxEntry(note, seq=1)
        assert isinstance(await carrier.send(delivery, is_marked=False), MayHaveArrived)
        assert isinstance(await carrier.send(delivery, is_marked=False), Arrived)
        assert chat.texts() == ["hello"]


SABOTAGES = (
    Sabotage("P14", check_the_sequence_moves_only_past_what_is_on_the_log, Progress, MovesFirst),
    Sabotage("P14", check_two_attempts_of_a_delivery_are_one_message, DiscordCarrier, FreshNonces),
)
