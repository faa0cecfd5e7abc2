"""A Telegram channel: polling in, messages and cards out, and drafts while the agent works."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

from holdfast.cli.doctor.findings import DoctorFinding, fault, ok
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions
from holdfast.features.channels.incoming import ChatFile
from holdfast.features.channels.intake import Platform
from holdfast.features.channels.kinds import CHECK_S, NETWORK
from holdfast.features.channels.messages import UNREADABLE, shaped
from holdfast.features.channels.owner import Accept, ChatPlatform
from holdfast.features.channels.telegram.api import (
    TelegramApi,
    TelegramFailure,
    TelegramResult,
    open_telegram,
)
from holdfast.features.channels.telegram.carrier import DIALECT, TelegramCarrier
from holdfast.features.channels.telegram.connecting import Bot, TelegramConnection
from holdfast.features.channels.telegram.polling import TelegramPolling, TelegramWebhook
from holdfast.features.channels.telegram.previews import TelegramPreviews

CLICK_S = 10.0
CLICK_CHARS_MAX = 200


class _FilePath(msgspec.Struct):
    file_path: str


@asynccontextmanager
async def open_channel(
    deps: ChannelDeps, options: ChannelOptions, log: ChannelLog
) -> AsyncGenerator[ChatPlatform]:
    """The platform for one bot, until the block ends."""
    async with open_telegram(token=str(options.token), base_url=options.base_url) as api:

        async def connect(accept: Accept) -> None:
            connection = TelegramConnection(api, log, deps.clock)
            if not options.webhook_url:
                await TelegramPolling(api, connection, accept=accept).run()
            url, secret = options.hook_url, options.hook_secret
            hook = TelegramWebhook(api, connection, deps.clock, url=url, secret=secret)
            await hook.run(deps.endpoints, options.name, accept)

        yield ChatPlatform(
            carrier=TelegramCarrier(api, deps.supervisor, log.state, deps.store),
            inbound=_inbound(api, options),
            connect=connect,
            show_work=TelegramPreviews(api, log.state, deps).run,
        )


def _inbound(api: TelegramApi, options: ChannelOptions) -> Platform:
    async def download(file: ChatFile) -> bytes | None:
        found = await api.call("getFile", {"file_id": file.handle})
        path = shaped(found.value, _FilePath) if isinstance(found, TelegramResult) else None
        if path is None:
            return None
        return await api.download(path.file_path, bytes_max=options.file_bytes_max)

    async def answer_click(click: str, text: str) -> None:
        parameters = {"callback_query_id": click, "text": text[:CLICK_CHARS_MAX]}
        await api.call("answerCallbackQuery", parameters, answer_s=CLICK_S)

    return Platform(download, answer_click, DIALECT, takes_files=True, counts_by_bot=True)


async def check(options: ChannelOptions) -> DoctorFinding:
    """Check it for `holdfast doctor`."""
    name = f"channel {options.name}"
    async with open_telegram(token=str(options.token), base_url=options.base_url) as api:
        reply = await api.call("getMe", answer_s=CHECK_S)
    if isinstance(reply, TelegramResult):
        bot = shaped(reply.value, Bot)
        if bot is None:
            return fault(name, f"Can't reach Telegram: {UNREADABLE}", NETWORK)
        return ok(name, f"connected to Telegram as @{bot.username}")
    if isinstance(reply, TelegramFailure):
        return fault(name, f"Telegram rejected the token: {reply.text}", "check `token`; @BotFather shows it")
    return fault(name, f"Can't reach Telegram: {reply.why}", NETWORK)
