"""Takes what Slack tells, in order within a conversation, after what its history has that we missed.

It doesn't matter how Slack tells it: over a socket, or by a call.

Reads messages missed while no socket was open, from each known conversation's history.
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.chat_locks import ChatLocks
from holdfast.features.channels.incoming import Arrival, ButtonPress, MessageDeletion, PlatformMessage
from holdfast.features.channels.messages import UNREADABLE, shaped
from holdfast.features.channels.owner import Accept
from holdfast.features.channels.slack.api import SlackApi, SlackDone, SlackFailure, listed_in, next_cursor
from holdfast.features.channels.slack.connecting import SlackConnection
from holdfast.features.channels.slack.events import read_listed
from holdfast.features.channels.state import ChannelState
from holdfast.interfaces.clock import Clock

_log = logging.getLogger(__name__)
CONVERSATIONS_MAX = 200  # the ones that were active last
PAGE, PAGES_MAX = 200, 10
OVERLAP_S = 600.0  # messages may have been taken in another order than they were written
LIMITS_MAX = 5  # how often a limit is waited for
LIMITED_S_MAX = 60.0
NAMED_MAX = 5
TOO_MANY = "too many messages"


class CatchingUp:
    """Takes what is new in each conversation; a conversation in which something happens goes first."""

    def __init__(
        self, api: SlackApi, state: ChannelState, locks: ChatLocks, *, clock: Clock, accept: Accept
    ) -> None:
        self._api = api
        self._clock = clock
        self._state = state
        self._locks = locks
        self._accept = accept
        self._bot = ""
        self._pending: dict[str, str] = {}  # conversation -> its newest message on the log
        self._unlisted: dict[str, str] = {}  # conversation -> why what is new there can't be had

    def begin(self, bot: str) -> None:
        """From now on, each known conversation waits to be looked at."""
        self._bot = bot
        threads = (chat for chat in self._state.sessions if "/" in chat)
        # A thread starts with a message in its channel, so it can be known without a message in it.
        last = {chat: chat.partition("/")[2] for chat in threads}
        last |= {place: one.platform_id for place, one in self._state.last_taken.items()}
        newest = sorted(last.items(), key=lambda one: one[1], reverse=True)
        self._pending = dict(newest[:CONVERSATIONS_MAX])
        self._unlisted = dict.fromkeys([place for place, _ in newest[CONVERSATIONS_MAX:]], TOO_MANY)

    def missed(self) -> str:
        """Describe messages that couldn't be read since `begin`; empty if all could."""
        if not self._unlisted:
            return ""
        places = ", ".join(list(self._unlisted)[:NAMED_MAX])
        whys = ", ".join(dict.fromkeys(self._unlisted.values()))
        number = len(self._unlisted)
        return f"messages in {number} conversations ({places}) that Slack didn't list: {whys}"

    async def run(self) -> None:
        """Look at all that still wait."""
        while self._pending:
            conversation = next(iter(self._pending))
            async with self._locks.of(conversation):
                await self.first(conversation)

    async def first(self, conversation: str) -> None:
        """Read this conversation, if it's still pending. The caller holds its lock."""
        last = self._pending.pop(conversation, None)
        if last is None:
            return
        for message in await self._since(conversation, last):
            await self._accept(message)

    async def _since(self, conversation: str, last: str) -> list[PlatformMessage]:
        """Return new messages, oldest first."""
        channel, _, thread = conversation.partition("/")
        try:
            oldest_s = max(0.0, float(last) - OVERLAP_S)
        except ValueError:
            self._unlisted[conversation] = f"{last!r} is no time"
            return []
        arguments: dict[str, Any] = {
            "channel": channel,
            "oldest": f"{oldest_s:.6f}",
            "limit": PAGE,
        }
        method = "conversations.replies" if thread else "conversations.history"
        arguments |= {"ts": thread} if thread else {}
        found: dict[str, PlatformMessage] = {}
        for _ in range(PAGES_MAX):
            page = await self._page(method, arguments)
            if isinstance(page, str) or (messages := listed_in(page)) is None:
                self._unlisted[conversation] = page if isinstance(page, str) else UNREADABLE
                break
            for listed in messages:
                message = read_listed(listed, channel=channel, bot=self._bot)
                # A thread is listed with the message that began it, which belongs to the channel.
                if message is not None and message.conversation == conversation:
                    found[message.platform_id] = message
            arguments["cursor"] = next_cursor(page)
            if not arguments["cursor"]:
                break
        else:
            self._unlisted[conversation] = TOO_MANY
        return [found[ts] for ts in sorted(found)]

    async def _page(self, method: str, arguments: Mapping[str, Any]) -> Mapping[str, Any] | str:
        """One page, or why Slack doesn't list it."""
        for _ in range(LIMITS_MAX):
            reply = await self._api.call(method, arguments)
            if isinstance(reply, SlackDone):
                return reply.value
            if not (isinstance(reply, SlackFailure) and reply.error == "ratelimited"):
                why = reply.error if isinstance(reply, SlackFailure) else reply.why
                _log.warning("can't list new messages in %s: %s", arguments["channel"], why)
                return why
            await self._clock.sleep_s(min(reply.retry_after_s or 1.0, LIMITED_S_MAX))
        return "ratelimited"


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
