"""Finds out who the bot is, and says on the log whether Slack works; sockets and calls share it."""

import logging
from collections.abc import Mapping
from typing import Any, cast

from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.messages import UNREADABLE, Unanswered, Unwritten
from holdfast.features.channels.slack.api import SlackApi, SlackDone, SlackFailure, SlackReply
from holdfast.features.channels.slack.events import SlackInstallation
from holdfast.interfaces.clock import Clock

_log = logging.getLogger(__name__)
BACKOFF_FIRST_S = 1.0
BACKOFF_LAST_S = 60.0
CHECK_APP = "Set `app_token` to the app-level token, which starts with xapp-, and restart the server."
_CHECK_BOT = "Set `token` to the bot token, which starts with xoxb-, and restart the server."
_TOKENS = "`token` starts with xoxb- and `app_token` with xapp-. Swap them and restart the server."
_SCOPE = "Add the scopes listed in the documentation to your app and reinstall it."
_MODE = "Turn on Socket Mode in your app's settings."
HINTS: Mapping[str, str] = {
    "missing_scope": _SCOPE,
    "no_permission": _SCOPE,
    "link_disabled": _MODE,
    "socket_mode_not_enabled": _MODE,
    "account_inactive": "The app was removed from the workspace. Reinstall it and use its new token.",
    "token_revoked": "The token was revoked. Reinstall the app and use its new token.",
}


class SlackTrouble(Exception):
    """Slack doesn't work for us now; the text says why, and `hint` what to do."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.hint = hint


class SlackConnection:
    """One app, and whether it can be reached."""

    def __init__(self, api: SlackApi, log: ChannelLog, clock: Clock) -> None:
        self._api = api
        self._channel = log
        self._clock = clock
        self.us = SlackInstallation("", "")
        self.account = ""

    async def introduce(self) -> None:
        """Ask who we are; raises SlackTrouble."""
        if self._api.trouble:
            raise SlackTrouble(self._api.trouble, _TOKENS)
        me = insist(await self._api.call("auth.test"), _CHECK_BOT)
        bot, team = str(me.get("user_id") or ""), str(me.get("team_id") or "")
        # An organization-wide app has no team.
        is_org_wide = me.get("is_enterprise_install") is True
        enterprise = str(me.get("enterprise_id") or "") if is_org_wide else ""
        if not bot or not (team or enterprise):
            raise SlackTrouble(f"Can't reach Slack: {UNREADABLE}")
        app = self.us.app or await self._app_of(str(me.get("bot_id") or ""))
        self.us, self.account = SlackInstallation(bot, team, app, enterprise), str(me.get("user") or "")

    async def _app_of(self, bot_id: str) -> str:
        """The app's id; empty if Slack doesn't say, as without the scope `users:read`."""
        reply = await self._api.call("bots.info", {"bot": bot_id})
        about: Any = reply.value.get("bot") if isinstance(reply, SlackDone) else None
        return str(cast("Mapping[str, Any]", about).get("app_id") or "") if isinstance(about, dict) else ""

    async def works(self) -> None:
        """Say that it works, unless that is known already."""
        await self._channel.connected(self._clock.now_ms(), self.account)

    async def missed(self, what: str) -> None:
        """Say what may be lost."""
        await self._channel.connected(self._clock.now_ms(), self.account, missed=what)

    async def failed(self, trouble: SlackTrouble) -> None:
        """Say what the trouble is, once for as long as it lasts."""
        await self._channel.failed(self._clock.now_ms(), str(trouble), trouble.hint)


def pause_s(failures: int) -> float:
    """How long to wait before the next attempt, longer each time."""
    return min(BACKOFF_FIRST_S * 2 ** min(failures - 1, 6), BACKOFF_LAST_S) if failures else 0.0


def insist(reply: SlackReply, hint: str) -> Mapping[str, Any]:
    """Return Slack's result; raises SlackTrouble."""
    match reply:
        case SlackDone(value=value):
            return value
        case SlackFailure(error=error):
            raise SlackTrouble(error, HINTS.get(error, "" if error == "ratelimited" else hint))
        case Unwritten(why=why) | Unanswered(why=why):
            raise SlackTrouble(f"Can't reach Slack: {why}")
