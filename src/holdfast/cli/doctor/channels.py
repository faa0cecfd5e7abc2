"""The doctor's checks of chat platforms: does the token work, and does the platform answer."""

from collections.abc import Sequence

from holdfast.cli.doctor.findings import DoctorFinding, fault, note, ok
from holdfast.config.channels import ChannelSettings
from holdfast.config.settings import Settings

WITHIN_S = 20.0


async def ask_platforms(settings: Settings) -> Sequence[DoctorFinding]:
    """What each platform answers."""
    return [await _ask(channel) for channel in settings.channels]


async def _ask(channel: ChannelSettings) -> DoctorFinding:
    from holdfast.channels.telegram.api import TelegramFailure, TelegramResult, open_telegram

    name = f"channel {channel.name}"
    async with open_telegram(token=str(channel.token), base_url=channel.base_url) as api:
        reply = await api.call("getMe", answer_s=WITHIN_S)
    if isinstance(reply, TelegramResult):
        return ok(name, f"Telegram knows it as @{reply.value.get('username', '')}")
    if isinstance(reply, TelegramFailure):
        return fault(name, f"Telegram refuses it: {reply.text}", "check its `token`; @BotFather shows it")
    return fault(
        name, f"Telegram can't be reached: {reply.why}", "check the network, and `base_url` if it is set"
    )


async def ask_no_platform(settings: Settings) -> Sequence[DoctorFinding]:
    """What to report instead of asking."""
    return [
        note(f"channel {channel.name}", "not checked", "run doctor without --offline")
        for channel in settings.channels
    ]
