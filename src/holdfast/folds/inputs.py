"""What people sent to a session: each message has exactly one visible state, and the queue has one order."""

from dataclasses import dataclass, field
from enum import StrEnum

from holdfast import events as e
from holdfast.values import Mode, Part


class MessageState(StrEnum):
    """Where a message is: #k in the queue, waiting for its run's next call, with a run, or taken back."""

    QUEUED = "queued"
    STEERING = "steering"
    DISPATCHED = "dispatched"
    REMOVED = "removed"


@dataclass(slots=True)
class SessionMessage:
    """A message as it stands now; `run_id` is the run that it waits for or that has it."""

    message_id: str
    seq: int
    at_ms: int
    text: str
    parts: tuple[Part, ...]
    mode: Mode
    client_id: str
    state: MessageState = MessageState.QUEUED
    run_id: str = ""


@dataclass(slots=True)
class InputState:
    """All messages of a session; `queue` and `steering` hold the ids of those that wait, in order.

    An edit, move or removal that comes after the message was handed over changes nothing: the input lost
    the race, and the message's state shows it.
    """

    messages: dict[str, SessionMessage] = field(default_factory=dict[str, SessionMessage])
    queue: list[str] = field(default_factory=list[str])
    steering: list[str] = field(default_factory=list[str])

    def position(self, message_id: str) -> int:
        """The message's place in the queue, 1 is next; 0 if it does not wait there."""
        return self.queue.index(message_id) + 1 if message_id in self.queue else 0

    def waiting(self) -> list[SessionMessage]:
        """Steers first, then the queue in its order."""
        return [self.messages[message_id] for message_id in (*self.steering, *self.queue)]

    def steers(self, run_id: str) -> list[SessionMessage]:
        """What waits for the next model call of this run."""
        steering = [self.messages[message_id] for message_id in self.steering]
        return [message for message in steering if message.run_id == run_id]

    def accept(self, seq: int, event: e.MessageAccepted, *, run_is_open: bool) -> None:
        """A second event with the same id has no effect."""
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
        )
        self.messages[message.message_id] = message
        if message.mode in {"steer", "redirect"} and run_is_open:
            message.state = MessageState.STEERING
            message.run_id = event.run_id
            self.steering.append(message.message_id)
        else:
            self.queue.append(message.message_id)

    def edit(self, event: e.MessageEdited) -> None:
        """A waiting message gets another text."""
        message = self.messages[event.message_id]
        if self._waits(message):
            message.text = event.text
            message.parts = event.parts

    def move(self, message_id: str, position: int) -> None:
        """0 is next; a place outside the queue is its nearer end."""
        if message_id in self.queue:
            self.queue.remove(message_id)
            self.queue.insert(min(max(position, 0), len(self.queue)), message_id)

    def remove(self, message_id: str) -> None:
        """A waiting message is taken back."""
        message = self.messages[message_id]
        if self._waits(message):
            self._settle(message, MessageState.REMOVED)

    def queue_for(self, message_id: str, run_id: str) -> None:
        """A run exists for the message; a message that was handed over before (a retry) waits again."""
        message = self.messages[message_id]
        message.run_id = run_id
        if message.state is not MessageState.QUEUED:
            self._settle(message, MessageState.QUEUED)
            self.queue.append(message_id)

    def hand_over(self, message_id: str, run_id: str) -> None:
        """The run has the message from here on, even if someone just took it back."""
        message = self.messages[message_id]
        message.run_id = run_id
        self._settle(message, MessageState.DISPATCHED)

    def run_ended(self, run_id: str) -> list[SessionMessage]:
        """Steers that came too late are next in the queue; what waited for this very run went with it."""
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
