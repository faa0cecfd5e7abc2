"""The doctor's checks of chat platforms: do the tokens work, and does the platform answer."""

from collections.abc import Sequence

from holdfast.cli.doctor.findings import DoctorFinding, counted, fault, note, ok
from holdfast.cli.doctor.store import store_reader
from holdfast.config.settings import Settings
from holdfast.features.channels.configured import channel_options
from holdfast.features.channels.http.folds import ChannelFolds
from holdfast.features.channels.kinds import platform_module
from holdfast.interfaces.feature import DoctorContext
from holdfast.interfaces.ids import channel_log_id
from holdfast.interfaces.journal import JournalError, Reading


async def check_channels(context: DoctorContext) -> Sequence[DoctorFinding]:
    """Check what was delivered and, unless offline, whether each platform answers."""
    settings = context.settings
    ask = ask_no_platform if context.is_offline else ask_platforms
    return [*await undelivered(settings), *await ask(settings)]


async def ask_platforms(settings: Settings) -> Sequence[DoctorFinding]:
    """Check each platform."""
    channels = [channel_options(channel) for channel in settings.channels]
    return [await platform_module(options.kind).check(options) for options in channels]


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
