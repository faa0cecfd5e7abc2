"""Answers to clicks and commands, as the fake Discord takes them: once, and within three seconds."""

import time
from collections.abc import Mapping
from typing import Any

from fakes.discord import shapes
from fakes.discord.refusals import DiscordRefusal
from fakes.discord.world import FOLLOW_UP_S, Channel, DiscordInteraction, DiscordWorld, is_ephemeral

MESSAGE, DEFERRED_MESSAGE, DEFERRED_UPDATE, UPDATE = 4, 5, 6, 7


def answer_interaction(
    world: DiscordWorld, path: Mapping[str, str], kind: int, data: Mapping[str, Any]
) -> DiscordInteraction:
    """The first answer to a click or a command."""
    known = world.interactions.get(path["token"])
    if known is None or known.interaction_id != path["interaction"] or known.is_late:
        raise DiscordRefusal(404, 10062, "Unknown interaction")
    if known.answer is not None:
        raise DiscordRefusal(400, 40060, "DiscordInteraction has already been acknowledged.")
    if kind not in {MESSAGE, DEFERRED_MESSAGE, DEFERRED_UPDATE, UPDATE}:
        raise DiscordRefusal(400, 50035, "Invalid Form Body")
    known.answer = kind
    channel = world.channels[known.channel]
    if kind == MESSAGE:
        _say(world, channel, known, data)
    elif kind == UPDATE and known.message_id in channel.messages:
        channel.messages[known.message_id] |= dict(data)
        world.tell(channel, "MESSAGE_UPDATE", channel.messages[known.message_id])
    world.changed.notify()
    return known


def original(world: DiscordWorld, path: Mapping[str, str], content: object) -> dict[str, Any]:
    """The first answer once more: changed if there are words, removed if they are empty."""
    known = _open(world, path)
    channel = world.channels[known.channel]
    if known.answer in {DEFERRED_UPDATE, UPDATE} and known.message_id in channel.messages:
        message = channel.messages[known.message_id]
        if content is not None:
            message["content"] = str(content)
            world.tell(channel, "MESSAGE_UPDATE", message)
        return message
    if content:
        world.whisper(channel, known, str(content))
    return shapes.message(known.interaction_id, known.channel, world.bot) | {"content": str(content or "")}


def follow_up(world: DiscordWorld, path: Mapping[str, str], data: Mapping[str, Any]) -> dict[str, Any]:
    """A further answer."""
    known = _open(world, path)
    return _say(world, world.channels[known.channel], known, data)


def _say(
    world: DiscordWorld, channel: Channel, known: DiscordInteraction, data: Mapping[str, Any]
) -> dict[str, Any]:
    message = world.new_message(channel, world.bot, str(data.get("content", "")))
    if is_ephemeral(data):
        world.whisper(channel, known, message["content"])
        return message
    message["components"] = list(data.get("components") or [])
    channel.messages[message["id"]] = message
    world.tell(channel, "MESSAGE_CREATE", message)
    return message


def _open(world: DiscordWorld, path: Mapping[str, str]) -> DiscordInteraction:
    known = world.interactions.get(path["token"])
    if known is None or known.answer is None or time.monotonic() > known.at_s + FOLLOW_UP_S:
        raise DiscordRefusal(401, 50027, "Invalid Webhook Token")
    return known
