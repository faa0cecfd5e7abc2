"""The gateway sessions of the fake Discord: each has its own sequence, and can be replayed."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from fakes.discord.faults import CloseSocket, Double, Ignore, ResetConnection, Reverse
from fakes.discord.shapes import MESSAGE_CONTENT
from fakes.exchanges import PlatformStep, Scripts
from holdfast.chaos.gates import Notifier

KEPT_MAX = 5_000  # events of a session that can be replayed
LATE_S = 0.2  # how long an event waits for one that may pass it
GUILDS, GUILD_MESSAGES, DIRECT_MESSAGES = 1 << 0, 1 << 9, 1 << 12
ALL_INTENTS = (1 << 26) - 1


class GatewaySession(Struct):
    """What one connection after another is sent, as long as it resumes."""

    session_id: str
    intents: int
    first: int = 1  # the sequence of the oldest event that is kept
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    late: dict[str, Any] | None = None
    raw: list[str] = field(default_factory=list[str])  # frames that are sent once, as they are
    cut: str = ""  # what the connection is to do before it sends more: "reset", or a close code

    @property
    def seq(self) -> int:
        """Of the newest event."""
        return self.first + len(self.events) - 1

    def after(self, seq: int) -> list[dict[str, Any]]:
        """The events after this one."""
        return self.events[max(0, seq + 1 - self.first) :]

    def add(self, name: str, data: Any) -> None:
        """Append an event, with the next sequence."""
        self.events.append({"op": 0, "t": name, "s": self.seq + 1, "d": data})
        extra = len(self.events) - KEPT_MAX
        if extra > 0:
            del self.events[:extra]
            self.first += extra


class GatewaySessions:
    """All sessions. An event that happens while there is none is lost, as on Discord."""

    def __init__(self, scripts: Scripts, changed: Notifier) -> None:
        self.known: dict[str, GatewaySession] = {}
        self.lost: list[str] = []  # names of events that no session was there for
        self.sockets = 0  # that are connected now
        self.reconnects = 0  # raised to make every socket send opcode 7
        self.drops = 0  # raised to cut every socket
        self._scripts = scripts
        self._changed = changed
        self._made = 0

    def open(self, intents: int) -> GatewaySession:
        """A new session."""
        self._made += 1
        session = GatewaySession(f"session{self._made}", intents)
        self.known[session.session_id] = session
        return session

    def forget(self) -> None:
        """Forget all sessions, as Discord does after some minutes without a socket: none can be resumed."""
        self.known.clear()
        self.drops += 1
        self._changed.notify()

    def drop(self) -> None:
        """Cut every socket; sessions can be resumed."""
        self.drops += 1
        self._changed.notify()

    def ask_to_reconnect(self) -> None:
        """Send opcode 7 to every socket."""
        self.reconnects += 1
        self._changed.notify()

    def send_raw(self, frame: str) -> None:
        """Send every session a frame as it is, also one that Discord would never send."""
        for session in self.known.values():
            session.raw.append(frame)
        self._changed.notify()

    def emit(self, name: str, data: Mapping[str, Any], *, intent: int = 0, own: bool = False) -> None:
        """Something happened: tell every session that asked for it."""
        steps = self._scripts.next(name, str(data.get("channel_id", "")))
        told = [one for one in self.known.values() if not intent or one.intents & intent]
        if not told:
            self.lost.append(name)
        for session in told:
            seen = dict(data) if own else _as_seen(name, data, session.intents)
            times = 2 if any(isinstance(step, Double) for step in steps) else 1
            if any(isinstance(step, Ignore) for step in steps):
                continue
            session.cut = next(_cuts(steps), session.cut)
            if any(isinstance(step, Reverse) for step in steps) and session.late is None:
                session.late = {"t": name, "d": seen}
                asyncio.get_running_loop().call_later(LATE_S, self._release, session)
                continue
            for _ in range(times):
                session.add(name, seen)
            self._release(session)
        self._changed.notify()

    def _release(self, session: GatewaySession) -> None:
        if session.late is not None:
            late, session.late = session.late, None
            session.add(late["t"], late["d"])
            self._changed.notify()


def _cuts(steps: Sequence[PlatformStep]) -> Iterator[str]:
    for step in steps:
        match step:
            case ResetConnection():
                yield "reset"
            case CloseSocket(code=code):
                yield str(code)
            case _:
                pass


def _as_seen(name: str, data: Mapping[str, Any], intents: int) -> dict[str, Any]:
    if name not in {"MESSAGE_CREATE", "MESSAGE_UPDATE"} or intents & MESSAGE_CONTENT:
        return dict(data)
    return without_content(data)


def without_content(message: Mapping[str, Any]) -> dict[str, Any]:
    """What a bot without the Message Content intent sees of a message in a guild that isn't about it."""
    is_visible = (
        "guild_id" not in message
        or message["author"].get("bot")
        or any(one.get("bot") for one in message["mentions"])
    )
    if is_visible:
        return dict(message)
    return dict(message) | {"content": "", "attachments": [], "embeds": [], "components": []}
