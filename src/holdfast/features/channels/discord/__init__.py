"""Discord: its gateway and API, and how a channel speaks them."""

from holdfast.features.channels.kinds import ChannelKind

KIND = ChannelKind()
