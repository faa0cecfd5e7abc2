"""Telegram: its Bot API, and how a channel speaks it."""

from holdfast.features.channels.kinds import ChannelKind

KIND = ChannelKind()
