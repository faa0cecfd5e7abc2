"""The fake Discord as a campaign sees it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from fakes.discord import (
    Accept,
    CloseSocket,
    DiscordLimit,
    Double,
    FakeDiscord,
    ResetConnection,
    Reverse,
)
from fakes.exchanges import PlatformStep, Scripts
from holdfast.chaos.gates import Notifier

_FAULTS: Mapping[str, tuple[str, Sequence[PlatformStep]]] = {
    "answer lost": ("createMessage", [Accept(), ResetConnection()]),
    "cut": ("createMessage", [ResetConnection()]),
    "limit": ("createMessage", [DiscordLimit(1)]),
    "limit of the bot": ("createMessage", [DiscordLimit(0.5, "global")]),
    "edit lost": ("editMessage", [Accept(), ResetConnection()]),
    "edit cut": ("editMessage", [ResetConnection()]),
    "history limited": ("listMessages", [DiscordLimit(1)]),
    "history cut": ("listMessages", [ResetConnection()]),
    "repeated event": ("MESSAGE_CREATE", [Double()]),
    "reordered events": ("MESSAGE_CREATE", [Reverse()]),
    "socket cut": ("MESSAGE_CREATE", [ResetConnection()]),
    "session over": ("MESSAGE_CREATE", [CloseSocket(4009)]),
    "resume refused": ("resume", [CloseSocket(4000)]),
}


class DiscordSide:
    """The fake Discord with numbered people."""

    name = "dc"
    port = 0
    retry = "/retry"
    marks_max: int | None = 0

    def __init__(self) -> None:
        self.faults = _FAULTS
        self.fake = FakeDiscord()

    @property
    def scripts(self) -> Scripts:
        """What goes wrong."""
        return self.fake.scripts

    @property
    def changed(self) -> Notifier:
        """Tells of whatever happens there."""
        return self.fake.world.changed

    def server(self) -> AbstractAsyncContextManager[FakeDiscord]:
        """The fake."""
        return self.fake

    def settings(self, people: Sequence[int]) -> str:
        """The channel in the settings."""
        allow = ", ".join(f'"{person}"' for person in people)
        return (
            f'\n[[channels]]\nname = "{self.name}"\nkind = "discord"\ntoken = "{self.fake.token}"\n'
            f'base_url = "{self.fake.url}"\nallow = [{allow}]\n'
        )

    def chat(self, person: int) -> str:
        """The chat of a person, as the channel's log names it."""
        return self.fake.world.direct(person).channel_id

    def say(self, person: int, text: str) -> None:
        """A person writes to the bot."""
        self.fake.world.say(self.fake.world.direct(person), text)

    def texts(self, person: int) -> list[str]:
        """What the bot said."""
        return self.fake.world.direct(person).texts()

    def is_reachable(self) -> bool:
        """Discord forgets the first words of a new chat while there is no session."""
        return bool(self.fake.world.sessions.known)
