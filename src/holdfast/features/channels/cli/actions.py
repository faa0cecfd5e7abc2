"""`holdfast channels`: see the chat platforms, and let people in and out.

The client's calls for channels.
"""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from holdfast.cli.attach import FAILED, OK, Attached, with_server
from holdfast.cli.terminal.columns import print_columns, print_json, when
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.client.client import Client, in_path
from holdfast.client.exchange import ClientRequest
from holdfast.features.channels.http.bodies import (
    ChannelHistory,
    ChannelList,
    ChannelLogEntry,
    ChannelMessageShown,
    ChannelShown,
    ChannelTestIntended,
    ChannelUserChanged,
    ChannelUserShown,
    PairingCode,
)
from holdfast.safe_text import safe_line, sentences


class ChannelCalls:
    """Channels of a server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self) -> Sequence[ChannelShown]:
        """The chat platforms, and whether each works."""
        return (await self._client.get("/api/channels", ChannelList)).data

    async def pair(self, name: str) -> PairingCode:
        """A code; whoever sends it to the bot may talk to the agent."""
        return await self._client.post(f"{_path_of(name)}/pair", None, PairingCode)

    async def allow(self, name: str, user: str, *, role: str = "user") -> None:
        """Let a person talk to the agent, by the platform's id."""
        await self._client.post(f"{_path_of(name)}/users", {"user": user, "role": role}, ChannelUserChanged)

    async def revoke(self, name: str, user: str) -> None:
        """Let a person no longer talk to the agent."""
        path = f"{_path_of(name)}/users/{in_path(user)}"
        await self._client.send(ClientRequest("DELETE", path), ChannelUserChanged)

    async def test(self, name: str, chat: str) -> ChannelTestIntended:
        """Send a test message to a chat."""
        return await self._client.post(f"{_path_of(name)}/test", {"chat": chat}, ChannelTestIntended)

    async def send(self, name: str, message: Mapping[str, str], *, once: str) -> ChannelMessageShown:
        """Queue a message or a file to a chat. Repeating it with the same `once` sends nothing."""
        return await self._client.post(
            f"{_path_of(name)}/messages", dict(message), ChannelMessageShown, once=once
        )

    async def message(self, name: str, message_id: str) -> ChannelMessageShown:
        """The delivery status of a message."""
        return await self._client.get(f"{_path_of(name)}/messages/{in_path(message_id)}", ChannelMessageShown)

    async def log(self, name: str) -> Sequence[ChannelLogEntry]:
        """The newest events of a channel."""
        return (await self._client.get(f"{_path_of(name)}/log", ChannelHistory)).data


def _path_of(name: str) -> str:
    return f"/api/channels/{in_path(name)}"


TEST_S = 15.0
LOOK_S = 0.3
NAME_CHARS_MAX = 60
_TROUBLE = frozenset({"delivery.rejected", "delivery.unknown", "channel.failed"})
_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "session.created": "channel created",
        "channel.connected": "connected",
        "channel.failed": "connection failed",
        "channel.code_made": "pairing code created",
        "channel.code_tried": "pairing code tried",
        "channel.user_allowed": "person allowed",
        "channel.user_revoked": "person revoked",
        "channel.chat_bound": "conversation started",
        "channel.model_chosen": "model chosen",
        "channel.home_chosen": "home chat chosen",
        "channel.update_taken": "received",
        "channel.result_wanted": "result requested",
        "channel.message_settled": "answered",
        "delivery.intended": "queued",
        "delivery.attempted": "sending",
        "delivery.postponed": "postponed",
        "delivery.confirmed": "delivered",
        "delivery.rejected": "rejected",
        "delivery.unknown": "unconfirmed",
    }
)
_ENDINGS = frozenset({"delivery.confirmed", "delivery.rejected", "delivery.unknown", "delivery.postponed"})


def list_channels(flags: Mapping[str, object], *, form: str) -> int:
    """Print each channel, its state, and who may talk there."""

    async def work(attached: Attached) -> int:
        found = await ChannelCalls(attached.client).list()
        if form == "json":
            print_json(found)
            return OK
        head = ("NAME", "KIND", "STATE", "SINCE", "WAITING", "ACCOUNT")
        print_columns(head, [_row(one) for one in found])
        for one in found:
            if one.problem:
                echo(f"{one.name}: {sentences(one.problem, one.hint)}")
            if lost := one.rejected + one.given_up:
                echo(
                    f"{one.name}: not delivered: {lost}. Run `holdfast channels log {one.name}` for details."
                )
            for user in one.users:
                echo(f"{one.name}: {_person(user)}")
        return OK

    return with_server(flags, work, works="nothing")


def _line(one: ChannelLogEntry) -> tuple[str, ...]:
    mark = "!" if one.type in _TROUBLE else ""
    return (when(one.at), mark, _WORDS.get(one.type, one.type), one.chat, one.user, one.what)


def _person(user: ChannelUserShown) -> str:
    """Describe a person, their role, and how they got access."""
    name = f"{safe_line(user.name, NAME_CHARS_MAX)} ({user.user})" if user.name else user.user
    may = "can talk and approve" if user.role == "approver" else "can talk"
    match user.how:
        case "code":
            how = "paired with a code"
        case "settings":
            how = "listed in the configuration"
        case _:
            how = f"allowed by {user.by}" if user.by else "allowed"
    return f"{name} {may}; {how}"


def _row(one: ChannelShown) -> tuple[str, ...]:
    waiting = str(one.awaited + one.undelivered)
    return (one.name, one.kind, one.state, when(one.since) if one.since else "", waiting, one.account)


async def _channel(attached: Attached, name: str) -> ChannelShown | None:
    return next((one for one in await ChannelCalls(attached.client).list() if one.name == name), None)


def pair(flags: Mapping[str, object], name: str, *, form: str) -> int:
    """Make a code and print it, this once."""

    async def work(attached: Attached) -> int:
        made = await ChannelCalls(attached.client).pair(name)
        if form == "json":
            print_json({"code": made.code, "expires_in_s": made.expires_in_s})
            return OK
        echo(made.code)
        channel = await _channel(attached, name)
        bot = f"the bot {channel.account}" if channel is not None and channel.account else "the bot"
        minutes = made.expires_in_s // 60
        echo_error(f"Send this code to {bot} within {minutes} minutes. It works once.")
        if channel is not None and channel.problem:
            echo_error(f"{name}: {sentences(channel.problem, channel.hint)}")
        return OK

    return with_server(flags, work, works="nothing")


def allow(flags: Mapping[str, object], name: str, user: str, *, role: str) -> int:
    """Let a person in."""

    async def work(attached: Attached) -> int:
        await ChannelCalls(attached.client).allow(name, user, role=role)
        echo("Allowed.")
        return OK

    return with_server(flags, work, works="nothing")


def revoke(flags: Mapping[str, object], name: str, user: str) -> int:
    """Let a person out."""

    async def work(attached: Attached) -> int:
        await ChannelCalls(attached.client).revoke(name, user)
        echo("Revoked.")
        return OK

    return with_server(flags, work, works="nothing")


def send_test(flags: Mapping[str, object], name: str, chat: str) -> int:
    """Send a test message, and wait for its delivery status."""

    async def work(attached: Attached) -> int:
        channel = await _channel(attached, name)
        if channel is not None and channel.state == "off":
            echo(f"{name}: {sentences(channel.problem, channel.hint)}")
            return FAILED
        sent = await ChannelCalls(attached.client).test(name, chat)
        ending: ChannelLogEntry | None = None
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + TEST_S
        while ending is None and loop.time() < give_up_s:
            await asyncio.sleep(LOOK_S)
            log = await ChannelCalls(attached.client).log(name)
            ours = [one for one in log if one.type in _ENDINGS and one.delivery == sent.delivery]
            ending = ours[-1] if ours else None
        if ending is None:
            channel = await _channel(attached, name)
            why = sentences(channel.problem, channel.hint) if channel is not None else ""
            echo(f"Not sent within {TEST_S:g} s. Holdfast keeps retrying. {why}".rstrip())
            return FAILED
        is_there = ending.type == "delivery.confirmed"
        echo("Delivered." if is_there else f"Not delivered: {ending.what}.")
        return OK if is_there else FAILED

    return with_server(flags, work, works="nothing")


def show_log(flags: Mapping[str, object], name: str, *, form: str) -> int:
    """Print what happened."""

    async def work(attached: Attached) -> int:
        found = await ChannelCalls(attached.client).log(name)
        if form == "json":
            print_json(found)
        else:
            head = ("WHEN", "", "WHAT", "CHAT", "USER", "DETAILS")
            print_columns(head, [_line(one) for one in found])
        return OK

    return with_server(flags, work, works="nothing")
