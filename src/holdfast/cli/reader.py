"""The read interface of commands: from a server or, without one, from the store."""

from collections.abc import AsyncGenerator, Sequence
from typing import Literal, Protocol

from holdfast.api.access import KeyShown
from holdfast.api.approvals import OpenAsk
from holdfast.api.runs import RunPage, RunShown
from holdfast.api.sessions import SessionPage, SessionShown, TranscriptPage
from holdfast.client.updates import Heard


class PausedSession(SessionShown, frozen=True, tag_field="object", tag="hermes.session"):
    """A session with an open run and no server."""

    paused: bool = True


class Reader(Protocol):
    """The part of the client that changes nothing; see Client for each of these."""

    async def runs(
        self, *, session_id: str = "", status: str = "", limit: int = 50, cursor: str = ""
    ) -> RunPage:
        """Runs, newest first."""
        ...

    async def run(self, run_id: str) -> RunShown:
        """A run as it stands."""
        ...

    def watch(self, run_id: str, *, after: int = 0) -> AsyncGenerator[Heard]:
        """A run's events, to its ending or as far as they go."""
        ...

    async def sessions(
        self, *, words: str = "", limit: int = 50, cursor: str = "", archived: str = "", children: str = ""
    ) -> SessionPage:
        """Sessions, newest first, or those in which the words are found."""
        ...

    async def session(self, session_id: str) -> SessionShown:
        """A session as the list shows it."""
        ...

    async def messages(self, session_id: str, *, before: int = 0, limit: int = 100) -> TranscriptPage:
        """The newest entries of the transcript below a seq."""
        ...

    async def export(self, session_id: str, *, form: Literal["json", "md", "html"] = "json") -> bytes:
        """A session as a file."""
        ...

    async def approvals(self) -> Sequence[OpenAsk]:
        """All that waits for someone."""
        ...

    async def keys(self) -> Sequence[KeyShown]:
        """The names of all keys."""
        ...
