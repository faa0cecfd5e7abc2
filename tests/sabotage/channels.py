"""Wrong parts of channels: each breaks a promise in one small way."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from agent.world import Effect, asks_about, process
from fakes.crash import Crashed
from fakes.telegram import FakeTelegram
from features.channels.lab import LOG, ME, channel, deps_of, options_for, state_of, until
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Gate
from holdfast.decisions.deliveries import Arrived, CannotTell, ProbeResult, SendNow, SendResult
from holdfast.events import Event
from holdfast.features.channels.approvals import Answerer, ChannelAsks
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.deliveries import PlatformFormat, pending_events
from holdfast.features.channels.incoming import Arrival, PlatformMessage
from holdfast.features.channels.outbox import OutboxSender
from holdfast.features.channels.session_watcher import notices
from holdfast.features.channels.state import AcceptedMessage, ChannelState, apply_to_channel
from holdfast.features.channels.telegram.api import open_telegram
from holdfast.features.channels.telegram.carrier import DIALECT, card_fits
from holdfast.features.channels.telegram.connecting import TelegramConnection
from holdfast.features.channels.telegram.polling import TelegramPolling, TelegramWebhook
from holdfast.folds.outbox import Outbox, OutboxEntry, apply_to_outbox
from holdfast.folds.session_fold import SessionFold
from holdfast.interfaces.system_clock import SystemClock
from holdfast.values import CHANNEL, Budget, Failure
from sabotage import Sabotage
from stores import MemoryStore

ANSWER = e.DeliveryIntended(at_ms=1, chat="1", message="answer", run="run", session_id="s")
CREATED = e.SessionCreated(at_ms=1, epoch="e", source=CHANNEL, title="tg")


class AcknowledgesFirst(TelegramPolling):
    """Tells Telegram that it has the updates, and then takes them."""

    @override
    async def _taken(self, updates: Any, offset: int) -> int | None:
        if updates:
            last = max(one["update_id"] for one in updates)
            await self._api.call("getUpdates", {"offset": last + 1, "timeout": 0})
        return await super()._taken(updates, offset)


async def check_an_update_is_on_the_log_before_telegram_may_forget_it(kind: type[TelegramPolling]) -> None:
    """A process that dies while it takes a message gets it again."""
    store, taken = MemoryStore(), asyncio.Event()
    await store.append(LOG, [CREATED])

    async def die(_: Arrival) -> NoReturn:
        raise Crashed

    async def accept(arrival: Arrival) -> None:
        assert isinstance(arrival, PlatformMessage)
        assert arrival.text == "hello"
        taken.set()

    async with FakeTelegram() as telegram, open_telegram(token=telegram.token, base_url=telegram.url) as api:
        telegram.world.say(ME, "hello")
        log = ChannelLog(store, LOG, await store.claim(LOG))
        with suppress(BaseExceptionGroup):
            await kind(api, TelegramConnection(api, log, SystemClock()), accept=die).run()
        again = asyncio.create_task(
            kind(api, TelegramConnection(api, log, SystemClock()), accept=accept).run()
        )
        await until(telegram, lambda: telegram.world.updates == [] or taken.is_set())
        await asyncio.sleep(0)
        again.cancel()
        await asyncio.wait([again])
        assert taken.is_set()


class SendsFirst(OutboxSender):
    """Sends, and says afterwards that it is about to."""

    @override
    async def _send(self, delivery: OutboxEntry, now: SendNow) -> None:
        result = await self._carrier.send(delivery, is_marked=now.is_marked)
        assert isinstance(result, Arrived)
        await self._channel.append(e.DeliveryAttempted(at_ms=2, delivery=delivery.key, nth=now.nth))
        await self._channel.append(e.DeliveryConfirmed(at_ms=2, delivery=delivery.key))


class _DyingLog(ChannelLog):
    """Dies at the nth append."""

    appends_left = 0

    @override
    async def append(self, *events: Event) -> None:
        self.appends_left -= 1
        if self.appends_left < 0:
            raise Crashed
        await super().append(*events)


async def check_nothing_is_silently_sent_twice(kind: type[OutboxSender]) -> None:
    """The process dies at each append in turn; what is sent again says so."""
    for appends in range(3):
        store, sent = MemoryStore(), list[bool]()

        class Carrier:
            async def send(
                self, delivery: OutboxEntry, *, is_marked: bool, sent: list[bool] = sent
            ) -> SendResult:
                del delivery
                sent.append(is_marked)
                return Arrived("7")

            async def probe(self, delivery: OutboxEntry) -> ProbeResult:
                del delivery
                return CannotTell()

        await store.append(LOG, [CREATED, ANSWER])
        for allowed in (appends, 100):
            log = _DyingLog(store, LOG, await store.claim(LOG))
            log.appends_left = allowed
            await log.catch_up()
            sending = asyncio.create_task(kind(log, Carrier(), store=store, clock=SystemClock()).run())
            settled = asyncio.create_task(log.until(lambda log=log: not log.state.outbox.queues))
            await asyncio.wait({sending, settled}, return_when=asyncio.FIRST_COMPLETED)
            for task in (sending, settled):
                task.cancel()
            await asyncio.wait({sending, settled})
            with suppress(BaseExceptionGroup, asyncio.CancelledError):
                sending.result()
        assert sent, "it was sent"
        assert sent.count(False) <= 1, "a silent repeat"


def by_what_asked_for_it(outbox: Outbox, seq: int, event: Event) -> None:
    """Knows a delivery by something that is new with each attempt to make it, such as a tool call's id."""
    own = replace(event, message=f"call_{seq}") if isinstance(event, e.DeliveryIntended) else event
    apply_to_outbox(outbox, seq, own)


async def check_the_same_message_of_a_run_is_one_delivery(
    apply: Callable[[Outbox, int, Event], None],
) -> None:
    outbox = Outbox()
    apply(outbox, 1, ANSWER)
    apply(outbox, 2, e.DeliveryConfirmed(at_ms=2, delivery=ANSWER.key, platform_id="7"))
    apply(outbox, 3, ANSWER)
    assert not any(one.seq == 3 for one in outbox.deliveries.values())


class ApprovesByPosition(ChannelAsks):
    """Takes any answer for one to the first thing that waits in the chat."""

    @override
    async def settle(self, ask_id: str, choice: str, who: Answerer) -> str:
        waiting = await self.open_asks(*self._state.sessions_reported_in(who.chat))
        return await super().settle(waiting[0].asked.ask_id if waiting else ask_id, choice, who)


async def check_a_click_approves_exactly_what_it_names(kind: type[ChannelAsks]) -> None:
    """A click on an old card approves nothing that came after it."""
    done: list[str] = []
    async with FakeTelegram() as telegram, ChaosServer([CallTool("act")], after_last="repeat") as chaos:
        acting = process(chaos, Effect("act", done), judge=asks_about("act"))
        options = options_for(telegram)
        async with acting as world, channel(world, options):
            telegram.world.say(ME, "do it")
            await until(telegram, lambda: "Allow once" in telegram.world.buttons(ME))
            state = await state_of(world)
            (session_id,) = state.chats
            asks = kind(deps_of(world), options, state, text_format=DIALECT)
            await asks.settle(f"apr_{'0' * 24}", "once", Answerer(str(ME), "Me", str(ME)))
            answers = [
                one for one in await world.log(session_id) if isinstance(one.event, e.ApprovalAnswered)
            ]
            assert answers == []


_Due = Callable[[ChannelState, str, SessionFold], list[Event]]


def _right(channel_state: ChannelState, session_id: str, session: SessionFold) -> list[Event]:
    said = notices(channel_state, session_id, session, budget=Budget(), now_ms=9)
    text_format = PlatformFormat(len, card_fits)
    return [
        *said,
        *pending_events(channel_state, session_id, session, text_format=text_format, now_ms=9),
    ]


def chatters(channel_state: ChannelState, session_id: str, session: SessionFold) -> list[Event]:
    """Tells the chat of each call that had to be made again."""
    failed = [run for run in session.session.runs.values() if len(run.attempts) > 1]
    notes = [replace(ANSWER, message="retrying", run=run.run_id, body="Trying again…") for run in failed]
    return [*notes, *_right(channel_state, session_id, session)]


async def check_a_call_that_is_made_again_leaves_no_trace(decide: _Due) -> None:
    """While the run works, the chat is told nothing; its answer is all that it is told in the end."""
    state, session = ChannelState(), SessionFold()
    state.awaited["m"] = AcceptedMessage("1", "s", "m", "5")
    failure = Failure(kind="dropped", text="cut")
    log: list[Event] = [
        e.SessionCreated(at_ms=1, epoch="e"),
        e.MessageAccepted(at_ms=1, message_id="m", text="hi"),
        e.RunQueued(at_ms=1, run_id="r", message_id="m"),
        e.MessageDispatched(at_ms=1, run_id="r", message_id="m"),
        e.RunStarted(at_ms=1, run_id="r"),
        e.CallStarted(at_ms=1, run_id="r", call_id="c", turn=0),
        e.AttemptStarted(at_ms=1, run_id="r", call_id="c", attempt_id="a1", target="t"),
        e.AttemptFailed(at_ms=1, run_id="r", attempt_id="a1", failure=failure, close_reason="peer"),
        e.AttemptStarted(at_ms=1, run_id="r", call_id="c", attempt_id="a2", target="t", nth=2),
    ]
    for seq, event in enumerate(log, 1):
        session.apply(seq, event)
        assert seq == 1 or decide(state, "s", session) == []


class AnswersFirst(TelegramWebhook):
    """Tells Telegram that it has the update, and then takes it."""

    @override
    async def deliver(self, body: bytes, accept: Callable[[Arrival], Awaitable[None]]) -> None:
        self.taking = asyncio.create_task(super().deliver(body, accept))


async def check_telegram_is_answered_after_the_update_is_on_the_log(kind: type[TelegramWebhook]) -> None:
    """While an update is being taken, Telegram waits."""
    gate = Gate()
    person = {"id": ME, "is_bot": False, "first_name": "Me"}
    message = {
        "message_id": 1,
        "date": 1,
        "chat": {"id": ME, "type": "private"},
        "from": person,
        "text": "hi",
    }

    async def accept(_: Arrival) -> None:
        await gate.passed()

    async with FakeTelegram() as telegram, open_telegram(token=telegram.token, base_url=telegram.url) as api:
        connection = TelegramConnection(api, ChannelLog(MemoryStore(), LOG), SystemClock())
        hook = kind(api, connection, SystemClock(), url="https://x", secret="s")  # noqa: S106
        body = msgspec.json.encode({"update_id": 1, "message": message})
        delivering = asyncio.create_task(hook.deliver(body, accept))
        await gate.reached()
        await asyncio.sleep(0)
        is_answered = delivering.done()
        gate.open()
        await delivering
        await asyncio.sleep(0)
        assert not is_answered


_Notices: TypeAlias = Callable[[ChannelState, SessionFold, int], list[Event]]


def _told(channel_state: ChannelState, session: SessionFold, now_ms: int) -> list[Event]:
    return notices(channel_state, "s", session, budget=Budget(tokens=100), now_ms=now_ms)


def nags(channel_state: ChannelState, session: SessionFold, now_ms: int) -> list[Event]:
    """Says it under another key each time that it is asked."""
    found = _told(ChannelState(awaited=channel_state.awaited), session, now_ms)
    return [
        replace(one, message=f"{one.message}.{now_ms}")
        for one in found
        if isinstance(one, e.DeliveryIntended)
    ]


async def check_a_budget_that_runs_out_is_said_once(decide: _Notices) -> None:
    """However often the log of the session changes after that."""
    state, session = ChannelState(), SessionFold()
    state.awaited["m"] = AcceptedMessage("1", "s", "m", "5")
    log: list[Event] = [
        e.SessionCreated(at_ms=1, epoch="e"),
        e.MessageAccepted(at_ms=1, message_id="m", text="hi"),
        e.RunQueued(at_ms=1, run_id="r", message_id="m"),
        e.MessageDispatched(at_ms=1, run_id="r", message_id="m"),
        e.RunStarted(at_ms=1, run_id="r"),
        *(e.Usage(at_ms=1, run_id="r", call_id="c", input_tokens=90) for _ in range(3)),
    ]
    for seq, event in enumerate(log, 1):
        session.apply(seq, event)
        for one in decide(state, session, seq):
            apply_to_channel(state, seq, one)
    assert len(state.outbox.deliveries) == 1


SABOTAGES = (
    Sabotage(
        "P2",
        check_telegram_is_answered_after_the_update_is_on_the_log,
        TelegramWebhook,
        AnswersFirst,
    ),
    Sabotage("P14", check_a_budget_that_runs_out_is_said_once, _told, nags),
    Sabotage(
        "P14",
        check_an_update_is_on_the_log_before_telegram_may_forget_it,
        TelegramPolling,
        AcknowledgesFirst,
    ),
    Sabotage("P14", check_nothing_is_silently_sent_twice, OutboxSender, SendsFirst),
    Sabotage("P14", check_the_same_message_of_a_run_is_one_delivery, apply_to_outbox, by_what_asked_for_it),
    Sabotage("P8", check_a_click_approves_exactly_what_it_names, ChannelAsks, ApprovesByPosition),
    Sabotage("P9", check_a_call_that_is_made_again_leaves_no_trace, _right, chatters),
)
