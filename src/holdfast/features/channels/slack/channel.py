"""A Slack channel: a socket or calls in, messages and cards out, and a message that shows what is written."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.cli.doctor.findings import DoctorFinding, fault, note, ok
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.chat_locks import ChatLocks
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions
from holdfast.features.channels.incoming import ChatFile
from holdfast.features.channels.intake import Platform
from holdfast.features.channels.kinds import NETWORK
from holdfast.features.channels.messages import shaped
from holdfast.features.channels.owner import Accept, ChatPlatform
from holdfast.features.channels.previews import MessagePreviews
from holdfast.features.channels.slack.api import SlackApi, SlackDone, SlackFailure, open_slack
from holdfast.features.channels.slack.blocks import escaped
from holdfast.features.channels.slack.carrier import DIALECT, LEAD, SlackCarrier, place_of
from holdfast.features.channels.slack.self_test import why_unreachable
from holdfast.features.channels.slack.socket import SlackSocket
from holdfast.features.channels.slack.webhook import HookAddress, SlackWebhook
from holdfast.interfaces.system_clock import SystemClock

FILES_SCOPE = "files:write"
# The fallback text of an updated card.
SEEN_ON_CARD = frozenset({"Allowed", "Denied", "Answered"})


@asynccontextmanager
async def open_channel(
    deps: ChannelDeps, options: ChannelOptions, log: ChannelLog
) -> AsyncGenerator[ChatPlatform]:
    """The platform for one app, until the block ends."""
    async with open_slack(
        token=str(options.token), app_token=str(options.app_token), base_url=options.base_url
    ) as api:
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

    return Platform(download, answer_click, DIALECT, takes_files=True, leads=f"/{LEAD}")


async def check(options: ChannelOptions) -> DoctorFinding:
    """The token for messages, and what makes things come in: the one for the socket, or our own address."""
    name = f"channel {options.name}"
    token, app_token = str(options.token), str(options.app_token)
    async with open_slack(token=token, app_token=app_token, base_url=options.base_url) as api:
        if api.trouble:
            return fault(name, api.trouble, "`token` must start with xoxb-, and `app_token` with xapp-")
        replies = {"token": await api.call("auth.test")}
        if not options.webhook_url:
            replies["app_token"] = await api.open_connection()  # it only names an address
    for key, reply in replies.items():
        if isinstance(reply, SlackFailure):
            return fault(name, f"Slack rejected {key}: {reply.error}", f"check `{key}`")
        if not isinstance(reply, SlackDone):
            return fault(name, f"Can't reach Slack: {reply.why}", NETWORK)
    me = replies["token"]
    assert isinstance(me, SlackDone)
    account = f"connected to Slack as @{me.value.get('user', '')} in {me.value.get('team', '')}"
    if me.scopes and FILES_SCOPE not in me.scopes:
        advice = f"add the scope `{FILES_SCOPE}` to your app (OAuth & Permissions), and reinstall it"
        return fault(name, f"{account}, but it can't send files", advice)
    return await _call_ourselves(options, account) if options.webhook_url else ok(name, account)


async def _call_ourselves(options: ChannelOptions, account: str) -> DoctorFinding:
    """Whether a call like Slack's arrives; not a fault, because some networks don't let one call oneself."""
    name, url = f"channel {options.name}", options.hook_url
    now_s = SystemClock().now_ms() // 1000
    why = await why_unreachable(url, secret=options.signing_secret, now_s=now_s)
    if not why:
        return ok(
            name,
            f"{account}, and {url} reaches this server. If messages don't arrive, check `signing_secret`",
        )
    return note(
        name,
        f"{account}, but can't reach {url} from here: {why}",
        "start the server, and check that the URL is public, has a valid certificate and reaches it",
    )
