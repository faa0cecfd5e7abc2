"""Wrong parts of a Slack channel: each breaks a promise in one small way."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

from msgspec.structs import replace
from typing_extensions import override

from agent.world import process
from fakes.crash import Crashed
from fakes.slack import Accept, FakeSlack, ResetConnection
from fakes.slack.markup import read_blocks, read_text
from features.channels.lab import echo
from features.channels.samples import DIALECT, PREVIEW, SHOWN, channel_of, session_of
from features.channels.slack.slack_lab import LOG, MY, options_for
from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.decisions.deliveries import NotThere, ProbeResult
from holdfast.events import Event
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.chat_locks import ChatLocks
from holdfast.features.channels.deliveries import pending_events
from holdfast.features.channels.events import (
    ChannelUpdateLogged,
)
from holdfast.features.channels.incoming import Arrival, PlatformMessage
from holdfast.features.channels.outbox import OutboxSender
from holdfast.features.channels.slack.api import open_slack
from holdfast.features.channels.slack.blocks import SlackMessage, escaped, slack_messages
from holdfast.features.channels.slack.carrier import SlackCarrier
from holdfast.features.channels.slack.intake import CatchingUp
from holdfast.features.channels.slack.socket import SlackSocket
from holdfast.features.channels.texts import MARK
from holdfast.folds.outbox import OutboxEntry
from holdfast.interfaces.system_clock import SystemClock
from holdfast.values import CHANNEL
from sabotage import Sabotage
from stores import MemoryStore

CREATED = e.SessionCreated(at_ms=1, epoch="e", source=CHANNEL, title="sl")


class AcknowledgesAtOnce(SlackSocket):
    """Tells Slack that it has an envelope, and then takes it."""

    @override
    async def _envelope(self, socket: Any, frame: Mapping[str, Any]) -> None:
        await socket.send_json({"envelope_id": frame["envelope_id"]})
        await super()._envelope(socket, frame)


async def check_an_envelope_is_on_the_log_before_slack_may_forget_it(kind: type[SlackSocket]) -> None:
    """A process that dies while it takes a message has not acknowledged it."""
    store = MemoryStore()
    await store.append(LOG, [CREATED])

    async def die(_: Arrival) -> NoReturn:
        raise Crashed

    async with FakeSlack() as slack:
        options = options_for(slack)
        opened = open_slack(token=options.token, app_token=options.app_token, base_url=options.base_url)
        async with opened as api:
            log = ChannelLog(store, LOG, await store.claim(LOG))
            running = asyncio.create_task(kind(api, log, SystemClock(), accept=die).run())
            await slack.world.changed.until(lambda: bool(slack.sockets.open))
            slack.world.say(MY, "hello")
            with suppress(BaseExceptionGroup):
                await running
            await slack.world.changed.until(lambda: not slack.sockets.open)
        assert not slack.sockets.acknowledged


class ForgetsTheHistory(CatchingUp):
    """Takes only what comes over the socket."""

    @override
    def begin(self, bot: str) -> None:
        del bot


async def check_what_no_socket_heard_is_found(kind: type[CatchingUp]) -> None:
    """What was said while no socket was open is in the history."""
    store, taken = MemoryStore(), list[str]()
    before = ChannelUpdateLogged(
        at_ms=1, key="k", became="message", chat=MY, user="U42", platform_id="1.0", conversation=MY
    )
    await store.append(LOG, [CREATED])
    log = ChannelLog(store, LOG, await store.claim(LOG))
    await log.append(before)

    async def take(arrival: Arrival) -> None:
        assert isinstance(arrival, PlatformMessage)
        taken.append(arrival.text)

    async with FakeSlack() as slack:
        slack.world.say(MY, "anyone?")
        options = options_for(slack)
        opened = open_slack(token=options.token, app_token=options.app_token, base_url=options.base_url)
        async with opened as api:
            catching_up = kind(api, log.state, ChatLocks(), clock=SystemClock(), accept=take)
            catching_up.begin("U0BOT")
            await catching_up.run()
    assert taken == ["anyone?"]


class NeverLooks(SlackCarrier):
    """Takes for granted that what was not confirmed is not there."""

    @override
    async def probe(self, delivery: OutboxEntry) -> ProbeResult:
        del delivery
        return NotThere()


async def check_a_message_whose_answer_was_lost_is_said_once(kind: type[SlackCarrier]) -> None:
    """What arrived isn't sent again without a mark."""
    note = e.DeliveryIntended(at_ms=1, chat=MY, message="note", body="hello")
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        slack.world.conversation(MY)
        slack.scripts.add("chat.postMessage", [Accept(), ResetConnection()])
        options = options_for(slack)
        opened = open_slack(token=options.token, app_token=options.app_token, base_url=options.base_url)
        async with opened as api:
            store = world.store
            await store.append(LOG, [CREATED, note])
            log = ChannelLog(store, LOG, await store.claim(LOG))
            await log.catch_up()
            carrier = kind(api, world.supervisor, log.state.outbox, store)
            sending = asyncio.create_task(OutboxSender(log, carrier, store=store, clock=SystemClock()).run())
            await log.until(lambda: not log.state.outbox.queues)
            sending.cancel()
            await asyncio.wait([sending])
        texts = slack.world.conversation(MY).texts()
        assert [text for text in texts if not text.startswith(MARK)] == ["hello"]


def as_mrkdwn(markdown: str) -> list[SlackMessage]:
    """Hands the text to Slack as it is."""
    return [replace(one, text=markdown, blocks=()) for one in slack_messages(markdown)]


async def check_no_text_calls_anyone(convert: Any) -> None:
    """`<!channel>` in a text is a text."""
    for message in convert("look <!channel> & <@U1>"):
        shown = read_blocks(message.blocks) if message.blocks else read_text(message.text)
        assert shown.calls == ()
    assert escaped("<") == "&lt;"


def leaves_the_preview(*args: Any, **fields: Any) -> list[Event]:
    """Says the answer below its preview, and leaves that half-said."""
    found = pending_events(*args, **fields)
    return [replace(one, edits="") if isinstance(one, e.DeliveryIntended) else one for one in found]


async def check_an_answer_takes_the_place_of_its_preview(decide: Any) -> None:
    """Nothing of what was said while the run worked stays in the chat."""
    found = decide(channel_of(PREVIEW, SHOWN), "s", session_of("a"), text_format=DIALECT, now_ms=9)
    assert [one.edits for one in found if isinstance(one, e.DeliveryIntended)] == [PREVIEW.key]


SABOTAGES = (
    Sabotage(
        "P14", check_an_envelope_is_on_the_log_before_slack_may_forget_it, SlackSocket, AcknowledgesAtOnce
    ),
    Sabotage("P14", check_what_no_socket_heard_is_found, CatchingUp, ForgetsTheHistory),
    Sabotage("P14", check_a_message_whose_answer_was_lost_is_said_once, SlackCarrier, NeverLooks),
    Sabotage("P11", check_no_text_calls_anyone, slack_messages, as_mrkdwn),
    Sabotage("P9", check_an_answer_takes_the_place_of_its_preview, pending_events, leaves_the_preview),
)
