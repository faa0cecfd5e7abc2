"""The messages of a session. Each has exactly one visible state, and the queue has one order."""

from enum import StrEnum

from msgspec import Struct, field

from holdfast import events as e
from holdfast.values import Mode, Part


class MessageState(StrEnum):
    """Where a message is: in the queue, waiting for its run's next call, with a run, or withdrawn."""

    QUEUED = "queued"
    STEERING = "steering"
    DISPATCHED = "dispatched"
    REMOVED = "removed"


class SessionMessage(Struct):
    """A message in its current state; `run_id` is the run that it waits for or that has it."""

    message_id: str
    seq: int
    at_ms: int
    text: str
    parts: tuple[Part, ...]
    mode: Mode
    client_id: str
    state: MessageState = MessageState.QUEUED
    run_id: str = ""
    child: str = ""  # the session of the sub-agent whose ending it brings


class InputState(Struct):
    """All messages of a session; `queue` and `steering` have the ids of the waiting ones, in order.

    An edit, move or removal after the message was handed over changes nothing: that input lost the race, and
    the message's state shows it.
    """

    messages: dict[str, SessionMessage] = field(default_factory=dict[str, SessionMessage])
    queue: list[str] = field(default_factory=list[str])
    steering: list[str] = field(default_factory=list[str])
    sources: dict[str, str] = field(default_factory=dict[str, str])  # where each was written; empty: unknown
    keys: dict[str, set[str]] = field(default_factory=dict[str, set[str]])  # the API keys that wrote each

    def position(self, message_id: str) -> int:
        """The message's position in the queue, starting at 1; 0 if it isn't queued."""
        return self.queue.index(message_id) + 1 if message_id in self.queue else 0

    def waiting(self) -> list[SessionMessage]:
        """Steering messages first, then the queue in order."""
        return [self.messages[message_id] for message_id in (*self.steering, *self.queue)]

    def steers(self, run_id: str) -> list[SessionMessage]:
        """Messages that wait for this run's next model call."""
        steering = [self.messages[message_id] for message_id in self.steering]
        return [message for message in steering if message.run_id == run_id]

    def accept(self, seq: int, event: e.MessageAccepted, *, run_is_open: bool) -> None:
        """Add a message; a second event with the same id has no effect."""
        if event.message_id in self.messages:
            return
        message = SessionMessage(
            message_id=event.message_id,
            seq=seq,
            at_ms=event.at_ms,
            text=event.text,
            parts=event.parts,
            mode=event.mode,
            client_id=event.client_id,
            child=event.child,
        )
        self.messages[message.message_id] = message
        self.sources[message.message_id] = event.source
        # A sub-agent's result isn't a person's message.
        self.keys[message.message_id] = {f"sub-agent {event.child}" if event.child else event.key}
        if message.mode in {"steer", "redirect"} and run_is_open:
            message.state = MessageState.STEERING
            message.run_id = event.run_id
            self.steering.append(message.message_id)
        else:
            self.queue.append(message.message_id)

    def edit(self, event: e.MessageEdited) -> None:
        """Change the text of a waiting message."""
        message = self.messages[event.message_id]
        if self._waits(message):
            message.text = event.text
            message.parts = event.parts
            self.keys[event.message_id].add(event.key)

    def move(self, message_id: str, position: int) -> None:
        """Move a queued message; 0 is next, and a position outside the queue means the nearer end."""
        if message_id in self.queue:
            self.queue.remove(message_id)
            self.queue.insert(min(max(position, 0), len(self.queue)), message_id)

    def remove(self, message_id: str) -> None:
        """Withdraw a waiting message."""
        message = self.messages[message_id]
        if self._waits(message):
            self._settle(message, MessageState.REMOVED)

    def queue_for(self, message_id: str, run_id: str) -> None:
        """Queue the message for its run; one that was handed over before (a retry) waits again."""
        message = self.messages[message_id]
        message.run_id = run_id
        if message.state is not MessageState.QUEUED:
            self._settle(message, MessageState.QUEUED)
            self.queue.append(message_id)

    def hand_over(self, message_id: str, run_id: str) -> None:
        """Give the message to the run, even if someone has just withdrawn it."""
        message = self.messages[message_id]
        message.run_id = run_id
        self._settle(message, MessageState.DISPATCHED)

    def run_ended(self, run_id: str) -> list[SessionMessage]:
        """Move late steering messages to the front of the queue; return those that waited for this run."""
        went_along = [self.messages[id_] for id_ in self.queue if self.messages[id_].run_id == run_id]
        for message in went_along:
            self._settle(message, MessageState.DISPATCHED)
        late = self.steers(run_id)
        for message in late:
            self._settle(message, MessageState.QUEUED)
            message.run_id = ""
        self.queue[:0] = [message.message_id for message in late]
        return went_along

    def _settle(self, message: SessionMessage, state: MessageState) -> None:
        message.state = state
        for waiting in (self.queue, self.steering):
            if message.message_id in waiting:
                waiting.remove(message.message_id)

    @staticmethod
    def _waits(message: SessionMessage) -> bool:
        return message.state in {MessageState.QUEUED, MessageState.STEERING}
