"""Takes what Slack tells, in order within a conversation, after what its history has that we missed.

It doesn't matter how Slack tells it: over a socket, or by a call.
"""

from collections import OrderedDict
from typing import Any

from msgspec.structs import replace

from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.chat_locks import ChatLocks
from holdfast.features.channels.incoming import Arrival, ButtonPress, MessageDeletion
from holdfast.features.channels.messages import shaped
from holdfast.features.channels.owner import Accept
from holdfast.features.channels.slack.api import SlackApi, SlackDone
from holdfast.features.channels.slack.catching_up import CatchingUp
from holdfast.features.channels.slack.connecting import SlackConnection
from holdfast.interfaces.clock import Clock

NAMES_MAX = 2_000


class SlackIntake:
    """All that comes in for one app."""

    def __init__(
        self, api: SlackApi, log: ChannelLog, clock: Clock, *, connection: SlackConnection, accept: Accept
    ) -> None:
        self._api = api
        self._channel = log
        self._connection = connection
        self._accept = accept
        self._names: OrderedDict[str, str] = OrderedDict()
        self._locks = ChatLocks()
        self._catching_up = CatchingUp(api, log.state, self._locks, clock=clock, accept=self._named)

    def begin(self) -> None:
        """Something may have been missed: from now on, nothing passes what came before it."""
        self._catching_up.begin(self._connection.us.bot)

    async def catch_up(self) -> None:
        """Process missed messages. Those that Slack doesn't list are reported as missed."""
        await self._catching_up.run()
        if missed := self._catching_up.missed():
            await self._connection.missed(missed)

    async def accept(self, arrival: Arrival) -> None:
        """Accept it, after what came before it in its conversation; then Slack may forget it."""
        conversation = "" if isinstance(arrival, ButtonPress) else arrival.conversation
        async with self._locks.of(conversation or arrival.chat):
            await self._catching_up.first(conversation)
            await self._named(arrival)

    async def _named(self, arrival: Arrival) -> None:
        """Accept it, with the name of the person."""
        if arrival.key in self._channel.state.keys:
            return
        if not isinstance(arrival, MessageDeletion):
            arrival = replace(arrival, name=await self._name_of(arrival.user))
        await self._accept(arrival)

    async def _name_of(self, user: str) -> str:
        """How people call this person; their id if Slack doesn't say."""
        if user in self._names:
            self._names.move_to_end(user)
            return self._names[user]
        reply = await self._api.call("users.info", {"user": user})
        if not isinstance(reply, SlackDone):
            return user
        found = shaped(reply.value.get("user"), dict[str, Any]) or {}
        profile = shaped(found.get("profile"), dict[str, Any]) or {}
        names = (profile.get("display_name"), profile.get("real_name"), found.get("name"), user)
        self._names[user] = next(str(name) for name in names if name)
        if len(self._names) > NAMES_MAX:
            self._names.popitem(last=False)
        return self._names[user]
