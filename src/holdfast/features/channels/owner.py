"""Owns a channel on any platform: accepts updates, watches sessions, sends, and shows progress.

Computes notices about messages that may be missing in a chat. Pure: a delivery and its outcome in, an intent
out. Unconfirmed and rejected messages are reported in the chat itself, except for previews, card updates and
these notices.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from msgspec import Struct, field

from holdfast import events as e
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.chat_locks import ChatLocks
from holdfast.features.channels.deliveries import DECIDED, PREVIEW, message_key
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions
from holdfast.features.channels.events import ChannelFailed, ChannelHomeChosen
from holdfast.features.channels.incoming import Arrival
from holdfast.features.channels.intake import ChannelIntake, Platform
from holdfast.features.channels.outbound import GONE
from holdfast.features.channels.outbox import Carrier, OutboxSender, SendingOptions
from holdfast.features.channels.session_watcher import SessionWatcher
from holdfast.folds.outbox import OutboxEntry
from holdfast.interfaces.journal import Fence, JournalError
from holdfast.racing import is_about

LOST = "lost"
UNCLEAR = "One of the agent's messages may not have arrived. If something is missing, read it on the page."
NOT_TAKEN = "One of the agent's messages was rejected here. You can read it on the page. Reason: {why}"
WHY_CHARS_MAX = 200


def loss_notices(delivery: OutboxEntry, record: e.Event, now_ms: int) -> Sequence[e.Event]:
    """Build the notice that a message may be missing; empty if none is."""
    match record:
        case e.DeliveryUnknown(given_up=True):
            body = UNCLEAR
        case e.DeliveryRejected(moot=False, ends_chat=False, why=why) if why != GONE:
            body = NOT_TAKEN.format(why=why[:WHY_CHARS_MAX])
        case _:
            return ()
    intended = delivery.intended
    if intended.removes or not _is_missed(message_key(intended)) or intended.message.endswith(f".{LOST}"):
        return ()
    # The parts of one answer share a notice, so its key has no part number.
    message = f"{intended.message}.{LOST}"
    return (
        e.DeliveryIntended(at_ms=now_ms, chat=intended.chat, message=message, run=intended.run, body=body),
    )


def _is_missed(message: str) -> bool:
    return message != PREVIEW and not message.endswith(f".{DECIDED}")


_log = logging.getLogger(__name__)
OWNER_FAILED = "The channel failed and is being restarted"
OWNER_HINT = "This is a bug in Holdfast. Please report it, with the error from the server's log."
Accept: TypeAlias = Callable[[Arrival], Awaitable[None]]


class ChatPlatform(Struct, frozen=True, kw_only=True):
    """The parts of a platform. Each runs until cancelled.

    `connect` opens the connection, passes updates to its argument one at a time per chat, and acknowledges
    each after it returned. It logs failures and retries.
    """

    carrier: Carrier
    inbound: Platform
    connect: Callable[[Accept], Coroutine[Any, Any, None]]
    show_work: Callable[[], Coroutine[Any, Any, None]] | None = None  # "typing" and previews
    locks: ChatLocks = field(default_factory=ChatLocks)
    can_probe: bool = False


OpenPlatform: TypeAlias = Callable[
    [ChannelDeps, ChannelOptions, ChannelLog], AbstractAsyncContextManager[ChatPlatform]
]


async def own_channel(
    deps: ChannelDeps, options: ChannelOptions, fence: Fence, *, open_platform: OpenPlatform
) -> None:
    """Own the channel until cancelled. Store errors propagate, and the service restarts it."""
    log = ChannelLog(deps.store, options.log_id, fence)
    await log.catch_up()
    try:
        if options.home != log.state.configured_home:
            await log.append(ChannelHomeChosen(at_ms=deps.clock.now_ms(), chat=options.home))
        with deps.endpoints.held(log.log_id):
            await _own(deps, options, log, open_platform)
    except Exception as error:
        if not is_about(error, (JournalError,)):
            await _say_failed(deps, log)
        raise


async def _own(
    deps: ChannelDeps, options: ChannelOptions, log: ChannelLog, open_platform: OpenPlatform
) -> None:
    async with open_platform(deps, options, log) as platform:
        intake = ChannelIntake(deps, options, log, platform.inbound)
        sender = OutboxSender(
            log,
            platform.carrier,
            store=deps.store,
            clock=deps.clock,
            options=SendingOptions(
                platform.locks, deps.settles_s if platform.can_probe else 0.0, loss_notices
            ),
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(log.follow(), name=f"follow {options.log_id}")
            tasks.create_task(sender.run(), name=f"send for {options.log_id}")
            tasks.create_task(SessionWatcher(deps, log, text_format=platform.inbound.text_format).run())
            if platform.show_work is not None:
                tasks.create_task(platform.show_work())
            tasks.create_task(platform.connect(intake.accept))


async def _say_failed(deps: ChannelDeps, log: ChannelLog) -> None:
    """Log that the channel failed, so that it isn't shown as connected."""
    try:
        await log.catch_up()
        if log.state.trouble != OWNER_FAILED:
            await log.append(ChannelFailed(at_ms=deps.clock.now_ms(), why=OWNER_FAILED, hint=OWNER_HINT))
    except JournalError as error:
        _log.info("channel %s: it can't be put on the log that it failed: %s", log.log_id, error)
