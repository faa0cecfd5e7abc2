"""The client's calls for channels."""

from collections.abc import Mapping, Sequence

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
    PairingCode,
)


class ChannelCalls:
    """Channels of a server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self) -> Sequence[ChannelShown]:
        """The chat platforms, and whether each works."""
        return (await self._client.get("/api/channels", ChannelList)).data

    async def pair(self, name: str) -> PairingCode:
        """A code; whoever sends it to the bot may talk to the agent."""
        return await self._client.post(f"{_channel(name)}/pair", None, PairingCode)

    async def allow(self, name: str, user: str, *, role: str = "user") -> None:
        """Let a person talk to the agent, by the platform's id."""
        await self._client.post(f"{_channel(name)}/users", {"user": user, "role": role}, ChannelUserChanged)

    async def revoke(self, name: str, user: str) -> None:
        """Let a person no longer talk to the agent."""
        path = f"{_channel(name)}/users/{in_path(user)}"
        await self._client.send(ClientRequest("DELETE", path), ChannelUserChanged)

    async def test(self, name: str, chat: str) -> ChannelTestIntended:
        """Send a test message to a chat."""
        return await self._client.post(f"{_channel(name)}/test", {"chat": chat}, ChannelTestIntended)

    async def send(self, name: str, message: Mapping[str, str], *, once: str) -> ChannelMessageShown:
        """Queue a message or a file to a chat. Repeating it with the same `once` sends nothing."""
        return await self._client.post(
            f"{_channel(name)}/messages", dict(message), ChannelMessageShown, once=once
        )

    async def message(self, name: str, message_id: str) -> ChannelMessageShown:
        """The delivery status of a message."""
        return await self._client.get(f"{_channel(name)}/messages/{in_path(message_id)}", ChannelMessageShown)

    async def log(self, name: str) -> Sequence[ChannelLogEntry]:
        """The newest events of a channel."""
        return (await self._client.get(f"{_channel(name)}/log", ChannelHistory)).data


def _channel(name: str) -> str:
    return f"/api/channels/{in_path(name)}"
