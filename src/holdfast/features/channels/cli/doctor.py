"""The doctor's checks of chat platforms: do the tokens work, and does the platform answer."""

from collections.abc import Sequence
from typing import Any

from holdfast.cli.doctor.findings import DoctorFinding, counted, fault, note, ok
from holdfast.cli.doctor.store import store_reader
from holdfast.config.channels import ChannelSettings
from holdfast.config.settings import Settings
from holdfast.features.channels.http.folds import ChannelFolds
from holdfast.interfaces.feature import DoctorContext
from holdfast.interfaces.ids import channel_log_id
from holdfast.interfaces.journal import JournalError, Reading
from holdfast.interfaces.system_clock import SystemClock

WITHIN_S = 20.0
NETWORK = "check the network, and `base_url` if it's set"
SLACK_FILES = "files:write"
MESSAGE_CONTENT_FLAGS = 1 << 18 | 1 << 19  # an application in many servers has the first, others the second


async def check_channels(context: DoctorContext) -> Sequence[DoctorFinding]:
    """Check what was delivered and, unless offline, whether each platform answers."""
    settings = context.settings
    ask = ask_no_platform if context.is_offline else ask_platforms
    return [*await undelivered(settings), *await ask(settings)]


async def ask_platforms(settings: Settings) -> Sequence[DoctorFinding]:
    """Check each platform."""
    return [await _ask(channel) for channel in settings.channels]


async def _ask(channel: ChannelSettings) -> DoctorFinding:
    match channel.kind:
        case "telegram":
            return await _ask_telegram(channel)
        case "slack":
            return await _ask_slack(channel)
        case "discord":
            return await _ask_discord(channel)
        case "bridge":
            return await _ask_bridge(channel)
        case "email":
            return await _ask_mail(channel)
        case "matrix":
            return await _ask_matrix(channel)


async def _ask_telegram(channel: ChannelSettings) -> DoctorFinding:
    from holdfast.features.channels.messages import UNREADABLE, shaped
    from holdfast.features.channels.telegram.api import TelegramFailure, TelegramResult, open_telegram
    from holdfast.features.channels.telegram.connecting import Bot

    name = f"channel {channel.name}"
    async with open_telegram(token=str(channel.token), base_url=channel.base_url) as api:
        reply = await api.call("getMe", answer_s=WITHIN_S)
    if isinstance(reply, TelegramResult):
        bot = shaped(reply.value, Bot)
        if bot is None:
            return fault(name, f"Can't reach Telegram: {UNREADABLE}", NETWORK)
        return ok(name, f"connected to Telegram as @{bot.username}")
    if isinstance(reply, TelegramFailure):
        return fault(name, f"Telegram rejected the token: {reply.text}", "check `token`; @BotFather shows it")
    return fault(name, f"Can't reach Telegram: {reply.why}", NETWORK)


async def _ask_matrix(channel: ChannelSettings) -> DoctorFinding:
    from holdfast.features.channels.matrix.api import MatrixFailure, MatrixResult, open_matrix

    name = f"channel {channel.name}"
    async with open_matrix(homeserver=channel.base_url, token=str(channel.token)) as api:
        reply = await api.call("GET", "account", "whoami", answer_s=WITHIN_S)
    if isinstance(reply, MatrixResult):
        return ok(name, f"connected to Matrix as {reply.value.get('user_id', '')}")
    if isinstance(reply, MatrixFailure):
        return fault(name, f"The homeserver rejected the token: {reply.why}", "check `token`")
    return fault(name, f"Can't reach the homeserver: {reply.why}", NETWORK)


async def _ask_mail(channel: ChannelSettings) -> DoctorFinding:
    from holdfast.features.channels.configured import channel_options
    from holdfast.features.channels.email.channel import HINT, mail_server
    from holdfast.features.channels.email.imap import MailTrouble, open_mailbox
    from holdfast.features.channels.email.smtp import sign_in

    name, mail = f"channel {channel.name}", channel_options(channel).mail
    password = str(channel.token)
    try:
        async with open_mailbox(mail_server(mail.imap_url), user=mail.login, password=password):
            pass
    except MailTrouble as error:
        return fault(name, f"Can't read mails: {error}", HINT)
    if why := await sign_in(mail_server(mail.smtp_url), user=mail.login, password=password):
        return fault(name, f"Can't send mails: {why}", "check `smtp_url`, `login` and `token`")
    if mail.authserv_id == "none":
        advice = "set `authserv_id` if your mail server checks senders"
        return note(name, f"connected as {mail.address}; anyone can pretend to be a sender", advice)
    return ok(name, f"connected as {mail.address}")


async def _ask_bridge(channel: ChannelSettings) -> DoctorFinding:
    from holdfast.decisions.deliveries import Arrived
    from holdfast.features.channels.bridge.channel import HINT, open_bridge
    from holdfast.features.channels.configured import channel_options

    name = f"channel {channel.name}"
    async with open_bridge(channel_options(channel), SystemClock()) as bridge:
        result = await bridge.ping()
    if isinstance(result, Arrived):
        return ok(name, f"the bridge at {channel.base_url} responds")
    return fault(name, f"The bridge doesn't respond: {result.why}", HINT)


async def _ask_slack(channel: ChannelSettings) -> DoctorFinding:
    """The token for messages, and what makes things come in: the one for the socket, or our own address."""
    from holdfast.features.channels.slack.api import SlackDone, SlackFailure, open_slack

    name = f"channel {channel.name}"
    token, app_token = str(channel.token), str(channel.app_token)
    async with open_slack(token=token, app_token=app_token, base_url=channel.base_url) as api:
        if api.trouble:
            return fault(name, api.trouble, "`token` must start with xoxb-, and `app_token` with xapp-")
        replies = {"token": await api.call("auth.test")}
        if not channel.webhook_url:
            replies["app_token"] = await api.open_connection()  # it only names an address
    for key, reply in replies.items():
        if isinstance(reply, SlackFailure):
            return fault(name, f"Slack rejected {key}: {reply.error}", f"check `{key}`")
        if not isinstance(reply, SlackDone):
            return fault(name, f"Can't reach Slack: {reply.why}", NETWORK)
    me = replies["token"]
    assert isinstance(me, SlackDone)
    account = f"connected to Slack as @{me.value.get('user', '')} in {me.value.get('team', '')}"
    if me.scopes and SLACK_FILES not in me.scopes:
        advice = f"add the scope `{SLACK_FILES}` to your app (OAuth & Permissions), and reinstall it"
        return fault(name, f"{account}, but it can't send files", advice)
    return await _call_ourselves(channel, account) if channel.webhook_url else ok(name, account)


async def _call_ourselves(channel: ChannelSettings, account: str) -> DoctorFinding:
    """Whether a call like Slack's arrives; not a fault, because some networks don't let one call oneself."""
    from holdfast.features.channels.deps import hook_url
    from holdfast.features.channels.slack.self_test import why_unreachable

    name, url = f"channel {channel.name}", hook_url(channel.webhook_url, channel.name)
    now_s = SystemClock().now_ms() // 1000
    why = await why_unreachable(url, secret=str(channel.signing_secret), now_s=now_s)
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


async def _ask_discord(channel: ChannelSettings) -> DoctorFinding:
    from holdfast.features.channels.discord.api import ApiRequest, DiscordFailure, DiscordResult, open_discord
    from holdfast.features.channels.messages import shaped

    name, about = f"channel {channel.name}", ApiRequest("GET", "/applications/@me", "GET application")
    clock = SystemClock()
    async with open_discord(token=str(channel.token), base_url=channel.base_url, clock=clock) as api:
        reply = await api.who_am_i()
        if isinstance(reply, DiscordResult):
            reply = await api.call(about, answer_s=WITHIN_S)
        account = api.bot_name
    if isinstance(reply, DiscordFailure):
        advice = "check `token`: discord.com/developers, your application, Bot"
        return fault(name, f"Discord rejected the token: {reply.text}", advice)
    if not isinstance(reply, DiscordResult):
        return fault(name, f"Can't reach Discord: {reply.why}", NETWORK)
    application = shaped(reply.value, dict[str, Any]) or {}
    has_content = bool((shaped(application.get("flags"), int) or 0) & MESSAGE_CONTENT_FLAGS)
    if channel.groups == "all" and not has_content:
        return fault(
            name,
            f"connected to Discord as {account}, but can't read messages in servers",
            "turn on the Message Content intent (discord.com/developers, your application, Bot), or set "
            'groups = "mention"',
        )
    return ok(name, f"connected to Discord as {account}")


async def undelivered(settings: Settings) -> Sequence[DoctorFinding]:
    """Check the channels' logs for messages that may be missing in chats."""
    if not settings.channels:
        return []
    try:
        async with store_reader(settings) as journal:
            if journal is None:
                return []
            return [await _lost(journal, channel.name) for channel in settings.channels]
    except JournalError as error:
        return [fault("deliveries", str(error), "see the result for the store")]


async def _lost(journal: Reading, channel: str) -> DoctorFinding:
    state = await ChannelFolds().state(journal, channel_log_id(channel))
    outcomes = [one.state for one in state.outbox.deliveries.values()]
    unclear, refused = outcomes.count("given_up"), outcomes.count("rejected")
    name = f"deliveries of {channel}"
    if not unclear and not refused:
        return ok(name, "all messages were delivered or are in progress")
    text = f"{counted(unclear, 'message')} might not have been delivered, and {refused} rejected"
    advice = f"run `holdfast channels log {channel}` for the reasons; the answers are also on the page"
    return note(name, text, advice, given_up=unclear, rejected=refused)


async def ask_no_platform(settings: Settings) -> Sequence[DoctorFinding]:
    """Report skipped checks."""
    return [
        note(f"channel {channel.name}", "not checked", "run doctor without --offline")
        for channel in settings.channels
    ]
