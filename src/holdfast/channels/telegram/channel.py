"""A Telegram channel: the owner of its log. It polls, watches, sends, and shows that the agent works."""

import asyncio

from holdfast.channels.channel_log import ChannelLog
from holdfast.channels.deps import ChannelDeps, ChannelOptions
from holdfast.channels.incoming import ChatFile
from holdfast.channels.outbox import OutboxSender
from holdfast.channels.taking import Platform, Taking
from holdfast.channels.telegram.api import TelegramApi, TelegramResult, open_telegram
from holdfast.channels.telegram.carrier import TelegramCarrier
from holdfast.channels.telegram.html import telegram_html
from holdfast.channels.telegram.polling import TelegramPolling
from holdfast.channels.telegram.previews import TelegramPreviews
from holdfast.channels.watching import Watching
from holdfast.interfaces.journal import Fence

CLICK_S = 10.0
CLICK_CHARS_MAX = 200


async def run_telegram(deps: ChannelDeps, options: ChannelOptions, fence: Fence) -> None:
    """Own the channel until cancelled; raises what the store raises, and is begun again."""
    log = ChannelLog(deps.store, options.log_id, fence)
    await log.catch_up()
    async with open_telegram(token=options.token, base_url=options.base_url) as api:
        previews = TelegramPreviews(api, log.state, deps)
        taking = Taking(deps, options, log, _platform(api, options))
        carrier = TelegramCarrier(api, deps.supervisor, log.state.outbox)
        watching = Watching(deps, log, count=_count)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(log.follow(), name=f"follow {options.log_id}")
            tasks.create_task(OutboxSender(log, carrier, store=deps.store, clock=deps.clock).run())
            tasks.create_task(watching.run())
            tasks.create_task(previews.run())
            tasks.create_task(TelegramPolling(api, log, deps.clock, take=taking.take).run())


def _count(text: str) -> int:
    return len(telegram_html(text))


def _platform(api: TelegramApi, options: ChannelOptions) -> Platform:
    async def download(file: ChatFile) -> bytes | None:
        found = await api.call("getFile", {"file_id": file.handle})
        if not isinstance(found, TelegramResult):
            return None
        return await api.download(str(found.value.get("file_path", "")), bytes_max=options.file_bytes_max)

    async def answer_click(click: str, text: str) -> None:
        parameters = {"callback_query_id": click, "text": text[:CLICK_CHARS_MAX]}
        await api.call("answerCallbackQuery", parameters, answer_s=CLICK_S)

    return Platform(download, answer_click)
