"""The objects of Discord's API in the shapes that its v10 gives them."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

DISCORD_EPOCH_MS = 1_420_070_400_000
BOT_ID = "424242424242424242"
GUILD_ID = "800000000000000001"
DIRECT, TEXT, THREAD = 1, 0, 11  # kinds of channels
BUTTON, ROW = 2, 1
EPHEMERAL = 1 << 6
MESSAGE_CONTENT = 1 << 15  # the intent
APP_MESSAGE_CONTENT_LIMITED = 1 << 19  # the application's flag that says it has the intent


class Snowflakes:
    """Ids that grow with time, and never repeat."""

    def __init__(self) -> None:
        self._last = 0

    def mint(self) -> str:
        """The next one."""
        now = (int(time.time() * 1000) - DISCORD_EPOCH_MS) << 22
        self._last = max(now, self._last + 1)
        return str(self._last)


def timestamp() -> str:
    """Now, as Discord writes it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def bot_user(name: str) -> dict[str, Any]:
    """The bot."""
    return {
        "id": BOT_ID,
        "username": name,
        "discriminator": "0000",
        "global_name": None,
        "avatar": None,
        "bot": True,
        "public_flags": 0,
        "flags": 0,
    }


def person(user_id: str) -> dict[str, Any]:
    """A person."""
    return {
        "id": user_id,
        "username": f"user{user_id}",
        "discriminator": "0",
        "global_name": f"User {user_id}",
        "avatar": None,
        "public_flags": 0,
    }


def member() -> dict[str, Any]:
    """What a guild adds to a person."""
    return {
        "nick": None,
        "avatar": None,
        "roles": [],
        "joined_at": "2020-01-01T00:00:00+00:00",
        "premium_since": None,
        "deaf": False,
        "mute": False,
        "flags": 0,
        "pending": False,
        "communication_disabled_until": None,
    }


def message(message_id: str, channel_id: str, author: Mapping[str, Any]) -> dict[str, Any]:
    """A message without words."""
    return {
        "id": message_id,
        "channel_id": channel_id,
        "author": dict(author),
        "content": "",
        "timestamp": timestamp(),
        "edited_timestamp": None,
        "tts": False,
        "mention_everyone": False,
        "mentions": [],
        "mention_roles": [],
        "attachments": [],
        "embeds": [],
        "components": [],
        "pinned": False,
        "type": 0,
        "flags": 0,
    }


def guild(channels: list[dict[str, Any]], threads: list[dict[str, Any]]) -> dict[str, Any]:
    """The one guild, as GUILD_CREATE has it."""
    everyone = {
        "id": GUILD_ID,
        "name": "@everyone",
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "position": 0,
        "permissions": "2248473465835073",
        "managed": False,
        "mentionable": False,
        "flags": 0,
    }
    me = member() | {"user": bot_user("holdfast")}
    return {
        "id": GUILD_ID,
        "name": "The guild",
        "icon": None,
        "splash": None,
        "discovery_splash": None,
        "owner_id": "1",
        "afk_channel_id": None,
        "afk_timeout": 300,
        "verification_level": 0,
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "roles": [everyone],
        "emojis": [],
        "features": [],
        "mfa_level": 0,
        "application_id": None,
        "system_channel_id": None,
        "system_channel_flags": 0,
        "rules_channel_id": None,
        "vanity_url_code": None,
        "description": None,
        "banner": None,
        "premium_tier": 0,
        "preferred_locale": "en-US",
        "public_updates_channel_id": None,
        "nsfw_level": 0,
        "premium_progress_bar_enabled": False,
        "safety_alerts_channel_id": None,
        "joined_at": "2020-01-01T00:00:00+00:00",
        "large": False,
        "unavailable": False,
        "member_count": 2,
        "voice_states": [],
        "members": [me],
        "channels": channels,
        "threads": threads,
        "presences": [],
        "stage_instances": [],
        "guild_scheduled_events": [],
        "soundboard_sounds": [],
        "stickers": [],
    }


def application(*, message_content: bool) -> dict[str, Any]:
    """The bot's application; its flags say which privileged intents are switched on."""
    return {
        "id": BOT_ID,
        "name": "Holdfast",
        "icon": None,
        "description": "",
        "summary": "",
        "bot_public": False,
        "bot_require_code_grant": False,
        "verify_key": "0" * 64,
        "flags": APP_MESSAGE_CONTENT_LIMITED if message_content else 0,
        "owner": person("1"),
        "team": None,
        "hook": True,
        "is_monetized": False,
    }
