"""Owns a channel, whatever its platform: takes what comes in, watches, sends, and shows work in progress."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from holdfast.channels.answers import Dialect
from holdfast.channels.channel_log import ChannelLog
from holdfast.channels.chat_locks import ChatLocks
from holdfast.channels.deps import ChannelDeps, ChannelOptions
from holdfast.channels.incoming import Arrival
from holdfast.channels.outbox import Carrier, OutboxSender
from holdfast.channels.taking import Platform, Taking
from holdfast.channels.watching import Watching
from holdfast.interfaces.journal import Fence

Take: TypeAlias = Callable[[Arrival], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPlatform:
    """What a platform brings along; all of it works until it is cancelled.

    `connect` opens the connection, gives what comes in to its argument, and tells the platform that we have
    it after that returned. Those of one chat go in one by one. Trouble is on the log, and it tries again.
    """

    dialect: Dialect
    carrier: Carrier
    inbound: Platform
    connect: Callable[[Take], Coroutine[Any, Any, None]]
    show_work: Callable[[], Coroutine[Any, Any, None]]  # "typing" and previews
    locks: ChatLocks = field(default_factory=ChatLocks)
    can_probe: bool = False


OpenPlatform: TypeAlias = Callable[
    [ChannelDeps, ChannelOptions, ChannelLog], AbstractAsyncContextManager[ChatPlatform]
]


async def own_channel(
    deps: ChannelDeps, options: ChannelOptions, fence: Fence, *, open_platform: OpenPlatform
) -> None:
    """Own the channel until cancelled; raises what the store raises, and is begun again."""
    log = ChannelLog(deps.store, options.log_id, fence)
    await log.catch_up()
    async with open_platform(deps, options, log) as platform:
        taking = Taking(deps, options, log, platform.inbound)
        sender = OutboxSender(
            log,
            platform.carrier,
            store=deps.store,
            clock=deps.clock,
            locks=platform.locks,
            settles_s=deps.settles_s if platform.can_probe else 0.0,
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(log.follow(), name=f"follow {options.log_id}")
            tasks.create_task(sender.run(), name=f"send for {options.log_id}")
            tasks.create_task(Watching(deps, log, dialect=platform.dialect).run())
            tasks.create_task(platform.show_work())
            tasks.create_task(platform.connect(taking.take))
