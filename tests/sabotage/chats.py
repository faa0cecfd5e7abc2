"""Wrong parts of channels: what people in a chat could do, miss or be misled by."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

from msgspec import structs
from msgspec.structs import replace
from typing_extensions import override

from agent.world import process
from fakes.telegram import FakeTelegram
from features.channels.lab import LOG, ME, channel, deps_of, options_for, state_of, until
from features.channels.samples import approval, channel_of, choices_of, session_of
from holdfast import events as e
from holdfast.chaos import ChaosServer, Hang, Say
from holdfast.features.channels.approvals import Answerer, ChannelAsks
from holdfast.features.channels.cards import CHOICES, Card, FitsIn, card_of, full_text
from holdfast.features.channels.channel_log import ChannelLog, channel_state
from holdfast.features.channels.chat_commands import ChatCommands
from holdfast.features.channels.deliveries import PlatformFormat, confirmed_overflow, pending_events
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions
from holdfast.features.channels.discord.carrier import DIALECT, card_fits
from holdfast.features.channels.discord.updates import read_message
from holdfast.features.channels.events import (
    ChannelCodeCreated,
    ChannelConnected,
)
from holdfast.features.channels.incoming import PlatformMessage, writable
from holdfast.features.channels.intake import ChannelIntake, Platform
from holdfast.features.channels.outbox import no_notices
from holdfast.features.channels.owner import Accept, ChatPlatform, OpenPlatform, loss_notices, own_channel
from holdfast.features.channels.state import code_digest
from holdfast.features.channels.telegram.channel import open_channel
from holdfast.features.channels.telegram.html import telegram_html
from holdfast.features.channels.texts import NO_ANSWER, button_data
from holdfast.folds.inputs import SessionMessage
from holdfast.folds.outbox import Outbox, OutboxEntry, apply_to_outbox
from holdfast.folds.run import AskStatus
from holdfast.folds.session import Session
from holdfast.interfaces.journal import Fence, IfSessionKnown
from holdfast.models.answer_writer import AnswerWriter
from holdfast.values import CHANNEL
from sabotage import Sabotage

CODE = "ABCD2345"
CREATED = e.SessionCreated(at_ms=1, epoch="e", source=CHANNEL, title="tg")


def cut_with_consent(ask: AskStatus, fits: FitsIn) -> Card:
    """Shows as much as fits, and offers everything all the same."""
    assert isinstance(ask.asked, e.ApprovalAsked)
    approval_id = ask.asked.approval_id
    buttons = [(CHOICES[one], button_data("approval", approval_id, one)) for one in ask.asked.choices]
    return replace(card_of(ask, fits), buttons=tuple(buttons))


async def check_nobody_is_offered_what_they_cannot_see(made: Callable[[AskStatus, FitsIn], Card]) -> None:
    """A command whose end isn't on the card may do anything there."""
    card = made(approval(f"echo {'x' * 3_000}; rm -rf /"), card_fits)
    assert "rm -rf /" not in card.detail
    assert choices_of(card) == ["deny"]


_Above: TypeAlias = Callable[[Outbox, e.DeliveryIntended, AskStatus, PlatformFormat], int]
CARD = e.DeliveryIntended(at_ms=1, chat="1", message="apr", run="r", session_id="s")


def as_intended(outbox: Outbox, card: e.DeliveryIntended, ask: AskStatus, text_format: PlatformFormat) -> int:
    """Counts what is to be said above a card, whether it arrived or not."""
    del ask, text_format
    return sum(key.startswith(f"{card.run}/{card.message}.") for key in outbox.deliveries)


async def check_consent_needs_every_message_above_the_card(above: _Above) -> None:
    """Several messages say what an action is; the last one arrives, or it is refused."""
    ask = approval(f"echo {'x' * 2_500}; rm -rf /")
    parts = DIALECT.count(full_text(ask))
    last = f"r/apr.words/{parts - 1}"
    arrived = e.DeliveryConfirmed(at_ms=3, delivery=last)
    refused = e.DeliveryRejected(at_ms=3, delivery=last, why="no")
    assert above(_outbox(parts, arrived), CARD, ask, DIALECT) == parts
    assert above(_outbox(parts, refused), CARD, ask, DIALECT) == 0


def _outbox(parts: int, ending: e.Event) -> Outbox:
    outbox = Outbox()
    words = structs.replace(CARD, message="apr.words", parts=parts, format=DIALECT.format)
    intended = [structs.replace(words, part=part) for part in range(parts)]
    arrived = [e.DeliveryConfirmed(at_ms=2, delivery=one.key) for one in intended[:-1]]
    for seq, event in enumerate((*intended, *arrived, ending), 1):
        apply_to_outbox(outbox, seq, event)
    return outbox


_Losses: TypeAlias = Callable[[OutboxEntry, e.Event, int], Sequence[e.Event]]


async def check_what_is_given_up_is_told_of(losses: _Losses) -> None:
    """An answer of which nobody knows whether it arrived."""
    answer = e.DeliveryIntended(at_ms=1, chat="1", message="answer", run="r", session_id="s")
    given_up = e.DeliveryUnknown(at_ms=2, delivery=answer.key, why="cut", given_up=True)
    assert [type(one) for one in losses(OutboxEntry(answer, 1), given_up, 2)] == [e.DeliveryIntended]


class PairsSideBySide(ChannelIntake):
    """Looks at a code while someone else may be using it up."""

    @override
    async def _is_about_pairing(self, arrival: Any) -> bool:
        self._pairing = asyncio.Lock()  # one of its own for each
        return await super()._is_about_pairing(arrival)


class _SlowLog(ChannelLog):
    """Others get on while something is appended."""

    @override
    async def append(self, *events: e.Event) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        await super().append(*events)


async def check_a_code_lets_one_person_in(kind: type[ChannelIntake]) -> None:
    """Two people send the same code at the same time."""
    async with FakeTelegram() as telegram, ChaosServer() as chaos, process(chaos) as world:
        made = ChannelCodeCreated(at_ms=1, digest=code_digest(LOG, CODE), expires_at_ms=2**52)
        await world.store.append(LOG, [CREATED])
        await world.store.append(LOG, [made], when=[IfSessionKnown()])
        log = _SlowLog(world.store, LOG, await world.store.claim(LOG))
        await log.catch_up()
        intake = kind(deps_of(world), options_for(telegram), log, _platform())
        await asyncio.gather(*(intake.accept(_said(user, CODE)) for user in ("91", "92")))
        assert len(log.state.users) == 1


def _platform() -> Platform:
    async def no_file(_: object) -> None:
        return None

    async def no_answer(_click: str, _text: str) -> None:
        return None

    return Platform(no_file, no_answer, DIALECT)


def _said(user: str, text: str) -> PlatformMessage:
    return PlatformMessage(
        key=f"m:{user}",
        chat=user,
        user=user,
        name=user,
        text=text,
        platform_id="1",
        is_direct=True,
        is_for_us=True,
    )


def as_it_came(text: str) -> str:
    """Trusts that JSON holds only whole characters."""
    return text


async def check_what_comes_in_can_be_written(made: Callable[[str], str]) -> None:
    """Half a character, which JSON can escape and no file can hold."""
    try:
        made("a\ud800b").encode()
    except UnicodeEncodeError as error:
        raise AssertionError("it can't be stored, and would come again for ever") from error


async def owns_in_silence(
    deps: ChannelDeps, options: ChannelOptions, fence: Fence, *, open_platform: OpenPlatform
) -> None:
    """Fails, and leaves the log as it is."""
    log = ChannelLog(deps.store, options.log_id, fence)
    await log.catch_up()
    async with open_platform(deps, options, log) as platform:
        await platform.connect(_take_nothing)


async def _take_nothing(_: object) -> None:
    """What comes in is of no concern here."""


async def check_a_channel_that_failed_is_not_shown_as_connected(own: Callable[..., Any]) -> None:
    """Its owner dies of something that nobody foresaw, right after it was connected."""

    @asynccontextmanager
    async def stumbling(
        deps: ChannelDeps, options: ChannelOptions, log: ChannelLog
    ) -> AsyncGenerator[ChatPlatform]:
        async def connect(_: Accept) -> None:
            await log.append(ChannelConnected(at_ms=1, account="x"))
            raise RuntimeError("nobody foresaw this")

        async with open_channel(deps, options, log) as platform:
            yield replace(platform, connect=connect)

    async with FakeTelegram() as telegram, ChaosServer() as chaos, process(chaos) as world:
        await world.store.append(LOG, [CREATED])
        fence, has_failed = await world.store.claim(LOG), False
        try:
            await own(deps_of(world), options_for(telegram), fence, open_platform=stumbling)
        except (RuntimeError, ExceptionGroup):
            has_failed = True
        assert has_failed
        assert not (await channel_state(world.store, LOG)).is_connected


class LeavesWhatWaits(ChatCommands):
    """Stops the run, and takes nothing back."""

    @override
    async def _take_back(
        self, session_id: str, session: Session, chat: str, *, but: str
    ) -> list[SessionMessage]:
        del session_id, session, chat, but
        return []


async def check_a_stop_strands_nothing(kind: type[ChatCommands]) -> None:
    """What waits in the chat is not paused for ever, since a chat has nothing to resume it."""
    async with (
        FakeTelegram() as telegram,
        ChaosServer([Say("half"), Hang()], after_last="repeat") as chaos,
        process(chaos) as world,
        channel(world, options_for(telegram)),
    ):
        telegram.world.say(ME, "first")
        await chaos.seen.until_request(1)
        (session_id,) = (await state_of(world)).chats
        await world.until(session_id, e.TextDelta)
        telegram.world.say(ME, "second")
        telegram.world.say(ME, "/queue")
        await until(telegram, lambda: bool(telegram.world.chat(ME).texts()))
        state, deps = await state_of(world), deps_of(world)
        options = options_for(telegram)
        asks = ChannelAsks(deps, options, state, text_format=DIALECT)
        who = Answerer(str(ME), "Me", str(ME))
        await kind(deps, options, LOG, state, asks).carry_out(("stop", ""), who, once=_never)
        session = await world.inbox.state(session_id)
        assert not [one for one in session.inbox.waiting() if session.holds(one)]


def _never(_: object) -> Any:
    raise AssertionError("a stop starts no run")


def trusting(data: Any) -> object:
    """Takes what it needs from a message, without a look at its shape."""
    return data["author"]["id"], data["channel_id"], data["content"]


async def check_what_cannot_be_read_is_nothing(read: Callable[[Any], object]) -> None:
    """An event in another shape than it should have."""
    odd: list[Any] = [{}, [], None, "text", {"id": 5, "author": [], "channel_id": {}, "content": None}]
    for data in odd:
        try:
            found = read(data)
        except (TypeError, KeyError) as error:
            raise AssertionError("the owner of the channel would begin again, and again") from error
        assert found is None


async def check_an_answer_of_white_space_is_said_to_be_none(count: Callable[[str], int]) -> None:
    """A message that no platform takes would be refused, and nobody would be told anything."""
    found = pending_events(
        channel_of(),
        "s",
        session_of(" \n "),
        text_format=PlatformFormat(count=count, fits=card_fits),
        now_ms=9,
    )
    assert [one.body for one in found if isinstance(one, e.DeliveryIntended)] == [NO_ANSWER]


def _messages(text: str) -> int:
    return len(telegram_html(text))


def any_text_is_one(text: str) -> int:
    """Counts what there is, seen or not."""
    return 1 if text else 0


class CountsWhiteSpace(AnswerWriter):
    """Takes any text for an answer."""

    @override
    def write_text(self, index: int, text: str) -> None:
        super().write_text(index, text)
        self.produced = True


class _Sink:
    """Takes what is said, and keeps nothing of it."""

    run_id, resumed, live, full = "r", False, None, False

    def say(self, segment: int, text: str) -> None:
        """Forget it."""

    def next_segment(self) -> int:
        return 0


async def check_white_space_alone_is_no_answer(kind: type[AnswerWriter]) -> None:
    """The model isn't shown it again, so it would be asked for again and again."""
    sink: Any = _Sink()
    writer = kind(
        sink, tool_ids=set[str], owner_of=lambda _: "holdfast", before_first=lambda: None, bytes_max=1_000
    )
    writer.write_text(0, " \n ")
    assert not writer.produced
    writer.write_text(0, "x")
    assert writer.produced


SABOTAGES = (
    Sabotage("P4", check_white_space_alone_is_no_answer, AnswerWriter, CountsWhiteSpace),
    Sabotage("P8", check_nobody_is_offered_what_they_cannot_see, card_of, cut_with_consent),
    Sabotage("P8", check_consent_needs_every_message_above_the_card, confirmed_overflow, as_intended),
    Sabotage("P14", check_what_is_given_up_is_told_of, loss_notices, no_notices),
    Sabotage("P11", check_a_code_lets_one_person_in, ChannelIntake, PairsSideBySide),
    Sabotage("P14", check_what_comes_in_can_be_written, writable, as_it_came),
    Sabotage("P14", check_a_channel_that_failed_is_not_shown_as_connected, own_channel, owns_in_silence),
    Sabotage("P14", check_a_stop_strands_nothing, ChatCommands, LeavesWhatWaits),
    Sabotage("P14", check_what_cannot_be_read_is_nothing, partial(read_message, bot_id="1"), trusting),
    Sabotage("P14", check_an_answer_of_white_space_is_said_to_be_none, _messages, any_text_is_one),
)
