"""A Slack channel: a socket or calls in, messages and cards out, and a message that shows what is written."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.chat_locks import ChatLocks
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions
from holdfast.features.channels.incoming import ChatFile
from holdfast.features.channels.intake import Platform
from holdfast.features.channels.messages import shaped
from holdfast.features.channels.owner import Accept, ChatPlatform
from holdfast.features.channels.previews import MessagePreviews
from holdfast.features.channels.slack.api import SlackApi, SlackDone, open_slack
from holdfast.features.channels.slack.blocks import escaped
from holdfast.features.channels.slack.carrier import DIALECT, LEAD, SlackCarrier, place_of
from holdfast.features.channels.slack.socket import SlackSocket
from holdfast.features.channels.slack.webhook import HookAddress, SlackWebhook
from holdfast.values import SLACK

# The fallback text of an updated card.
SEEN_ON_CARD = frozenset({"Allowed", "Denied", "Answered"})


@asynccontextmanager
async def open_channel(
    deps: ChannelDeps, options: ChannelOptions, log: ChannelLog
) -> AsyncGenerator[ChatPlatform]:
    """The platform for one app, until the block ends."""
    async with open_slack(token=options.token, app_token=options.app_token, base_url=options.base_url) as api:
        locks = ChatLocks()
        carrier = SlackCarrier(api, deps.supervisor, log.state.outbox, deps.store)

        async def connect(accept: Accept) -> None:
            if not options.webhook_url:
                await SlackSocket(api, log, deps.clock, accept=accept).run()
            address = HookAddress(options.hook_url, options.signing_secret)
            hook = SlackWebhook(api, log, deps.clock, address=address, accept=accept)
            await hook.run(deps.endpoints, options.name)

        yield ChatPlatform(
            carrier=carrier,
            inbound=_inbound(api, options),
            connect=connect,
            show_work=MessagePreviews(deps, log, carrier, locks).run,
            locks=locks,
            can_probe=True,
        )


def _inbound(api: SlackApi, options: ChannelOptions) -> Platform:
    async def download(wanted: ChatFile) -> bytes | None:
        address = wanted.handle
        if not address.startswith("http"):
            found = await api.call("files.info", {"file": address})
            file = shaped(found.value.get("file"), dict[str, Any]) if isinstance(found, SlackDone) else None
            address = str((file or {}).get("url_private", ""))
        return await api.download(address, bytes_max=options.file_bytes_max)

    async def answer_click(click: str, text: str) -> None:
        chat, _, user = click.partition(" ")
        if text not in SEEN_ON_CARD:
            await api.call("chat.postEphemeral", place_of(chat) | {"user": user, "text": escaped(text)})

    return Platform(download, answer_click, DIALECT, source=SLACK, takes_files=True, leads=f"/{LEAD}")
